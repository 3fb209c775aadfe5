"""Latency curves to simulate with: of passes that read prompts, those of files, a published one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from pathlib import Path

from outrider.bench.result import read_json
from outrider.errors import LoadError
from outrider.models.base import Target
from outrider.planner.cost import SETTLING, in_turns, settle
from outrider.planner.latency import Latency
from outrider.planner.measured import TIMED
from outrider.planner.probe import TargetProbe

READING_ROWS = (1, 8, 16, 32, 64, 128, 256)
"""Rows of the passes that only read, timed to tell what prompts cost."""
REPEATS = 6
MEAN_ROWS, MEAN_SECONDS, MOST_ROUNDS = (1, 2, 4, 8, 16), 1.5, 1000
"""Rows of the passes whose mean is set against their median, and the time that is spent on it."""
UNTIMED = 2
"""Passes before those that are timed for the mean; until some time was over, slow ones would hide here."""

PUBLISHED = {
    # vLLM as SpecDecode-Bench fitted it: 5.886 ms a pass and 1.207 ms around it, 21.0 µs a row, 39.3 ns a
    # cached token, at which the rows of a sequence look together.
    "h100-llama-3.1-8b": Latency((1, 2), (7.114, 7.135), per_cached=39.3e-6),
}
"""Curves of machines that are not at hand, by name."""


def reading_latency(target: Target) -> Latency:
    """Return the curve of a target's passes that read the beginning of a prompt and ask for one row's logits.

    As far as the context has room for them. The counts of rows take turns, each after passes of its own, and
    the median of each stands.
    """
    probe = ReadingProbe(target)
    counts = [rows for rows in READING_ROWS if rows < target.context_limit or rows == 1]
    for rows in reversed(counts):
        probe.time(rows)  # the first pass of a shape may set things up
    times: dict[int, list[float]] = {rows: [] for rows in counts}
    for rows in in_turns([counts], REPEATS):
        settle(probe, rows, SETTLING)
        times[rows].append(1000 * probe.time(rows))
    medians = {rows: statistics.median(found) for rows, found in times.items()}
    return Latency.of((medians if len(medians) > 1 else {**medians, 2: medians[1]}).items())


def mean_over_median(target: Target) -> float:
    """Return how much longer passes take on average than in the median, over a few seconds of passes.

    A curve holds medians: what is usual, and what drafts are weighed by. What else runs on a machine makes
    some passes much longer, and those count when tokens a second are told.
    """
    probe = TargetProbe(target)
    counts = [rows for rows in MEAN_ROWS if rows < target.context_limit or rows == 1]
    for rows in reversed(counts):
        probe.time(rows)
    times: dict[int, list[float]] = {rows: [] for rows in counts}
    started = time.perf_counter()
    for turn, rows in enumerate(in_turns([counts], MOST_ROUNDS)):
        if turn >= REPEATS * len(counts) and time.perf_counter() - started > MEAN_SECONDS:
            break
        for _ in range(UNTIMED):
            probe.time(rows)
        times[rows] += [probe.time(rows) for _ in range(TIMED)]
    usual = sum(len(found) * statistics.median(found) for found in times.values())
    return max(1.0, sum(map(sum, times.values())) / usual)


class ReadingProbe:
    """Times passes that read the beginning of a prompt. Implements `planner.cost.Probe`."""

    def __init__(self, target: Target) -> None:
        self.context_limit = target.context_limit
        self._probe = TargetProbe(target)

    def fill(self, context: int) -> None:
        """Do nothing: a prompt is read from its beginning."""

    def time(self, rows: int) -> float:
        """Read `rows` tokens; return the time in seconds."""
        started = time.perf_counter()
        self._probe.fill(rows)
        return time.perf_counter() - started


def read_latency(path: Path) -> Latency:
    """Return the curve of a JSON file: the fields of `Latency`, or a document's `latency` of these.

    LoadError where there is none, or where it is no rising curve from one row up.
    """
    found = read_json(path)
    kept = found.get("latency", found) if isinstance(found, Mapping) else None
    try:
        assert isinstance(kept, Mapping)
        return Latency(
            tuple(map(int, kept["rows"])),
            tuple(map(float, kept["milliseconds"])),
            float(kept.get("per_key", 0.0)),
            float(kept.get("per_cached", 0.0)),
        )
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise LoadError(
            f"{str(path)!r} holds no latency curve: write rows from 1 up, and milliseconds that never fall"
        ) from error


def scaled(latency: Latency, by: float) -> Latency:
    """Return the curve of a model that takes so many times as long."""
    times = tuple(by * each for each in latency.milliseconds)
    return Latency(latency.rows, times, by * latency.per_key, by * latency.per_cached)
