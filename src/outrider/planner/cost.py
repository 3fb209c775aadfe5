"""What a pass costs, by the rows in it: the latency curve, measured and never assumed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

CONTEXTS = (256, 2048)
ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SETTLING = 0.015
"""Seconds of passes of a count before it is timed."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class CostPoint:
    """One measured point: a pass over `rows` rows, on top of `context` cached tokens, in milliseconds.

    `ratio` is that time over the time of one row at the same context.
    """

    context: int
    rows: int
    milliseconds: float
    ratio: float


class Probe(Protocol):
    """A model whose passes can be timed."""

    context_limit: int

    def fill(self, context: int) -> None:
        """Make a sequence of `context` committed tokens the one that passes continue."""
        ...

    def time(self, rows: int) -> float:
        """Run one pass over a chain of `rows` rows and undo it; return its time in seconds."""
        ...


def in_turns(groups: Sequence[Sequence[Item]], repeats: int) -> Iterator[Item]:
    """Yield every item once a round, `repeats` rounds, the items of a group one after the other.

    Both orders turn by one each round: drift of the machine hits all items alike, and it is not always the
    same one that comes first after another group's threads.
    """
    for turn in range(repeats):
        for group in _turned(groups, turn):
            yield from _turned(group, turn)


def settle(probe: Probe, rows: int, seconds: float) -> None:
    """Run passes for so long: after much longer ones a processor is slower for a while, its clock low."""
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        probe.time(rows)


def up_and_down(items: Sequence[Item], repeats: int) -> Iterator[Item]:
    """Yield every item once a round, `repeats` rounds, each the other way round than the one before.

    For counts of rows, rising: a pass over few rows then comes after passes over few, as it does where text
    is generated. Weights that a large cache still holds are read faster, and a long pass drives them out.
    """
    for turn in range(repeats):
        yield from items if turn % 2 == 0 else reversed(items)


def _turned(items: Sequence[Item], turn: int) -> list[Item]:
    start = turn % len(items)
    return [*items[start:], *items[:start]]


def measure_curves(
    probes: Sequence[Probe],
    *,
    contexts: Sequence[int] = CONTEXTS,
    rows: Sequence[int] = ROWS,
    repeats: int = 9,
) -> list[list[CostPoint]]:
    """Time passes over each count of rows at each context, on each probe; return the medians, by probe.

    Counts and probes are interleaved, and each is timed after passes of its own (`settle`). A context that
    leaves no room for the longest chain is left out.
    """
    assert repeats >= 1
    assert min(rows) == 1, "ratios need the time of one row"
    limit = min(probe.context_limit for probe in probes)
    passes = [[(index, count) for count in rows] for index in range(len(probes))]
    points: list[list[CostPoint]] = [[] for _ in probes]
    for context in contexts:
        if context + max(rows) > limit:
            continue
        for probe in probes:
            probe.fill(context)
            for count in rows:
                probe.time(count)
        times: dict[tuple[int, int], list[float]] = {key: [] for group in passes for key in group}
        for index, count in in_turns(passes, repeats):
            settle(probes[index], count, SETTLING)
            times[index, count].append(probes[index].time(count))
        medians = {key: statistics.median(seconds) for key, seconds in times.items()}
        for index, own in enumerate(points):
            one = medians[index, 1]
            own += [CostPoint(context, n, 1000 * medians[index, n], medians[index, n] / one) for n in rows]
    return points
