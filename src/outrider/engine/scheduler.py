"""Who runs in the next pass, and how much of its text each reads: decisions only, nothing is run here."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outrider.engine.request import Request
from outrider.sampling import checks

FEWEST_ROWS = 8
"""A reader that does not finish gets at least one part in this many of a pass's rows, if it came first."""
SLOWED = 4
"""Where others finish in this pass, those that don't get at most one row for so many of theirs."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an engine may use; OptionError for a value out of its range."""

    running: int = 16
    """Most requests in one pass."""
    waiting: int = 4096
    """Most requests in the queue; more are refused."""
    read_rows: int = 512
    """Most rows of one pass that read text that was given (prompts) or is read again after a preemption."""
    beside_rows: int = 128
    """The same while other requests are past their prompt, so that their next tokens don't wait long."""
    cache_bytes: int | None = None
    """Most bytes of keys and values, a drafter's own and stored prefixes included; None sets no limit."""

    def __post_init__(self) -> None:
        for name, least in (("running", 1), ("waiting", 0), ("read_rows", 1), ("beside_rows", 1)):
            checks.whole(name, getattr(self, name), f"a whole number >= {least}", least)
        if self.cache_bytes is not None:
            checks.whole("cache_bytes", self.cache_bytes, "a whole number >= 1", 1)


class Queue:
    """Requests that wait, the most urgent first: by priority, then in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: list[Request] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        return iter(list(self._waiting))

    def add(self, request: Request) -> None:
        """Put a request in its place."""
        insort(self._waiting, request, key=urgency)

    def remove(self, request: Request) -> None:
        """Take a request out, if it is there."""
        self._waiting = [other for other in self._waiting if other is not request]


def urgency(request: Request) -> tuple[int, int]:
    """Return what requests are sorted by: the most urgent first."""
    return -request.priority, request.number


def share_rows(readers: Sequence[Request], rows: int) -> dict[int, int]:
    """Return how many rows each reader gets in this pass, by the request's number.

    `rows` is what all of them get together. The most urgent come first, and
    among equals those with the least left to read: what a short prompt waits for is not a long one. Where
    some finish in this pass, the others get few rows of it (`SLOWED`), so that they don't keep those waiting;
    but the one that came first always gets some.
    """
    if not readers:
        return {}
    pending = {request.number: request.sequence.pending for request in readers}
    first = min(readers, key=urgency)
    given = dict.fromkeys(pending, 0)
    given[first.number] = min(pending[first.number], max(1, rows // FEWEST_ROWS), first.most_rows)
    left, finishing = rows - given[first.number], 0
    for request in sorted(readers, key=lambda r: (-r.priority, pending[r.number], r.number)):
        number, most = request.number, request.most_rows
        wanted = min(pending[number], most) - given[number]
        if wanted <= left and pending[number] <= most:
            given[number] += wanted
            finishing += pending[number]
            left -= wanted
        else:
            given[number] += min(wanted, left)
            break
    if finishing:
        slowed = max(1, finishing // SLOWED)
        for number in (request.number for request in sorted(readers, key=urgency)):
            if given[number] < pending[number]:
                given[number] = min(given[number], slowed)
                slowed -= given[number]
    return given
