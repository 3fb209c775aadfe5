"""A target's latency curve, measured when it is first asked for and kept between runs."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from outrider.models.base import Target
from outrider.planner import kept
from outrider.planner.cost import SETTLING, in_turns, settle
from outrider.planner.latency import Latency
from outrider.planner.probe import TargetProbe

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
CONTEXT = 16
FAR_CONTEXT, FAR_ROWS, FAR_ROUNDS = 1024, 8, 9
"""Where the cost of looking far back is measured, unless reading so much takes long, and how often."""
NEAREST_FAR_CONTEXT = 256
FAR_SECONDS = 3.0
"""Most seconds for reading up to there, where that is more than the nearest."""
SECONDS = 1.5
"""Time spent on measuring, unless `FEWEST_ROUNDS` take longer."""
FEWEST_ROUNDS, MOST_ROUNDS = 3, 15
FEW_ROWS = 16
"""The most that a pass mostly has while nothing but drafts is in it."""
SETTLING_LONG = 0.1
"""Seconds of passes before one is timed, where much was read just before."""
TIMED = 2
"""Passes that are timed in a turn."""
CHECKED = (1, 8)
"""Counts of rows that are timed again when a curve was kept."""
BUSY = 0.8
"""A kept curve was measured on a busy machine where one of these takes less than this share of its time."""
_VERSION = 5


def measure_latency(target: Target) -> Latency:
    """Time passes of 1 to 64 rows on top of up to 16 cached tokens, and a few on top of 1024.

    A processor is slower for a while after a long pass (its clock falls under load), and a decoder mostly
    runs passes of a few rows one after another. So each count is timed when passes of its own have gone
    before (`settle`), and the long ones come last. The counts take turns, and what a third of the times of
    each don't exceed stands: a machine shared with others slows many passes down, and now and then runs one
    much faster than the rest.
    """
    probe = TargetProbe(target)
    rows = [count for count in ROWS if count <= target.context_limit] or [1]
    probe.fill(max(0, min(CONTEXT, target.context_limit - max(rows))))
    for count in reversed(rows):
        probe.time(count)  # the first pass of a shape may set things up
    times: dict[int, list[float]] = {count: [] for count in rows}
    few = [count for count in rows if count <= FEW_ROWS]
    started = time.perf_counter()
    for turn, count in enumerate(in_turns([few], MOST_ROUNDS)):
        rounds = turn // len(few)
        if rounds >= FEWEST_ROUNDS and time.perf_counter() - started > SECONDS:
            break
        settle(probe, count, SETTLING)
        times[count] += [1000 * probe.time(count) for _ in range(TIMED)]
    for count in rows[len(few) :] * FEWEST_ROUNDS:
        times[count].append(1000 * probe.time(count))
    typical = {count: usual(found) for count, found in times.items()}
    if len(typical) == 1:  # a context of one token leaves nothing to draft
        typical[2] = typical[1]
    most = max(typical)
    affordable = int(most * 1000 * FAR_SECONDS / typical[most])
    far = min(FAR_CONTEXT, max(NEAREST_FAR_CONTEXT, affordable))
    return Latency.of(typical.items(), *_looking(target, probe, far))


def _looking(target: Target, near: TargetProbe, context: int) -> tuple[float, float]:
    """Return what one more cached token costs each row, and what it costs a pass once, in milliseconds.

    Both are 0 where the context is short. Passes far from and near to the beginning of a text take turns: the
    difference is small, and a machine that has become slower or faster in between would bend it. `near` holds
    `CONTEXT` tokens, and the far ones get `context`.
    """
    if target.context_limit < FAR_CONTEXT + FAR_ROWS:
        return 0.0, 0.0
    far = TargetProbe(target)
    far.fill(context)
    settle(far, FAR_ROWS, SETTLING_LONG)
    longer: dict[int, list[float]] = {1: [], FAR_ROWS: []}
    for rows in in_turns([[*longer]], FAR_ROUNDS):
        longer[rows].append(1000 * (far.time(rows) - near.time(rows)) / (context - CONTEXT))
    one, several = (max(0.0, statistics.median(found)) for found in longer.values())
    per_key = max(0.0, (several - one) / (FAR_ROWS - 1))
    return per_key, max(0.0, several - FAR_ROWS * per_key)


def usual(times: Sequence[float]) -> float:
    """Return what a third of the times don't exceed."""
    return sorted(times)[(len(times) - 1) // 3]


def _is_quieter(target: Target, before: Latency) -> bool:
    """Tell whether passes are now much faster than when a curve was measured."""
    probe = TargetProbe(target)
    rows = [count for count in CHECKED if count in before.rows]
    probe.fill(max(0, min(CONTEXT, target.context_limit - max(rows))))
    for count in rows:
        settle(probe, count, SETTLING)
        now = 1000 * usual([probe.time(count) for _ in range(2 + FEWEST_ROUNDS)])
        if now < BUSY * before.at(count):
            return True
    return False


class MeasuredLatency:
    """The latency curve of one target, measured once and kept in a directory for the next run.

    `subject` is whatever the time depends on (model, kernel, threads, machine); `directory` None keeps
    nothing. A kept curve stands unless passes have become much faster since: what else ran while it was
    measured bends a curve, so the one of the quietest moment is the right one.
    """

    def __init__(self, target: Target, subject: Mapping[str, str], directory: Path | None) -> None:
        self._target = target
        self._latency: Latency | None = None
        self._path: Path | None = None
        if directory is not None:
            self._path = kept.path_of(directory, {"version": _VERSION, **subject})

    def get(self) -> Latency:
        """Return the curve."""
        if self._latency is None:
            found = _read(self._path)
            if found is None or _is_quieter(self._target, found):
                found = measure_latency(self._target)
                kept.write(self._path, asdict(found))
            self._latency = found
        return self._latency


def _read(path: Path | None) -> Latency | None:
    """Return a kept curve; None where there is none, or where it cannot be read."""
    found = kept.read(path)
    with contextlib.suppress(ValueError, TypeError, KeyError, AssertionError):
        return Latency(
            tuple(found["rows"]), tuple(found["milliseconds"]), found["per_key"], found["per_cached"]
        )
    return None
