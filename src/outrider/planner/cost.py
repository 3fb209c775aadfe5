"""What a pass costs, by the rows in it: the latency curve, measured and never assumed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

CONTEXTS = (256, 2048)
ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


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


def measure_curve(
    probe: Probe,
    *,
    contexts: Sequence[int] = CONTEXTS,
    rows: Sequence[int] = ROWS,
    repeats: int = 9,
) -> list[CostPoint]:
    """Time passes over each count of rows at each context; return the medians.

    The counts are interleaved, in an order that turns by one each round, so that drift of the machine hits
    all alike. A context that leaves no room for the longest chain is left out.
    """
    assert repeats >= 1
    assert min(rows) == 1, "ratios need the time of one row"
    points: list[CostPoint] = []
    for context in contexts:
        if context + max(rows) > probe.context_limit:
            continue
        probe.fill(context)
        for count in rows:
            probe.time(count)
        times: dict[int, list[float]] = {count: [] for count in rows}
        for round_number in range(repeats):
            turn = round_number % len(rows)
            for count in (*rows[turn:], *rows[:turn]):
                times[count].append(probe.time(count))
        medians = {count: statistics.median(times[count]) for count in rows}
        points += [CostPoint(context, n, 1000 * medians[n], medians[n] / medians[1]) for n in rows]
    return points
