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
SETTLING_FROM_LONG = 0.06
"""The same where much longer passes may have gone just before."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class CostPoint:
    """One measured point: a pass over `rows` rows, on top of `context` cached tokens, in milliseconds.

    `ratio` is that time over the time of the target's one row at the same context.
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


def _turned(items: Sequence[Item], turn: int) -> list[Item]:
    start = turn % len(items)
    return [*items[start:], *items[:start]]


def measure_curves(
    probes: Sequence[Probe],
    *,
    contexts: Sequence[int] = CONTEXTS,
    rows: Sequence[int] = ROWS,
    repeats: int = 9,
    steps: Sequence[Probe] = (),
    nodes: Sequence[int] = (1, 2, 4, 8),
) -> list[list[CostPoint]]:
    """Time passes over each count of rows at each context, on each probe; return the medians, by probe.

    `steps`: of drafters, one for each probe or none; they are timed over `nodes` in the same rounds, their
    ratios are over one row of that probe, and their points come after those of all probes. Counts and probes
    are interleaved, and each is timed after passes of its own (`settle`). A context that leaves no room for
    the longest chain is left out.
    """
    assert repeats >= 1
    assert min(rows) == 1, "ratios need the time of one row"
    assert len(steps) in (0, len(probes))
    one_row = [*range(len(probes)), *range(len(steps))]
    counts = [rows] * len(probes) + [nodes] * len(steps)
    probes = [*probes, *steps]
    limit = min(probe.context_limit for probe in probes)
    passes = [[(index, count) for count in own] for index, own in enumerate(counts)]
    points: list[list[CostPoint]] = [[] for _ in probes]
    for context in contexts:
        if context + max(max(own) for own in counts) > limit:
            continue
        for probe, own in zip(probes, counts, strict=True):
            probe.fill(context)
            for count in own:
                probe.time(count)
        times: dict[tuple[int, int], list[float]] = {key: [] for group in passes for key in group}
        for index, count in in_turns(passes, repeats):
            settle(probes[index], count, SETTLING_FROM_LONG)
            times[index, count].append(probes[index].time(count))
        medians = {key: statistics.median(seconds) for key, seconds in times.items()}
        for index, found in enumerate(points):
            one = medians[one_row[index], 1]
            found += [
                CostPoint(context, n, 1000 * medians[index, n], medians[index, n] / one)
                for n in counts[index]
            ]
    return points
