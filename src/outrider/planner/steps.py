"""What a drafter's steps cost beside the target's passes: measured once, and kept between runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from outrider.models.base import Target
from outrider.planner import kept
from outrider.planner.cost import SETTLING, Probe, in_turns, settle
from outrider.planner.latency import Latency
from outrider.planner.measured import CONTEXT, FEWEST_ROUNDS, MOST_ROUNDS, TIMED, usual
from outrider.planner.probe import TargetProbe

NODES = (1, 2, 4, 8)
"""Nodes of the levels that are timed."""
SECONDS = 0.5
"""Time spent on measuring, unless `FEWEST_ROUNDS` take longer."""
_VERSION = 1


def measure_steps(target: Target, steps: Probe) -> Latency | None:
    """Return what levels of n nodes take, in passes of the target over one row; None in too short a context.

    Both are timed in the same rounds, each after passes of its own, so that a machine which is slower for a
    while bends neither against the other. Where times fall as nodes grow more, they get their mean.
    """
    if min(target.context_limit, steps.context_limit) < CONTEXT + max(NODES) + 2:
        return None
    own = TargetProbe(target)
    for probe in (own, steps):
        probe.fill(CONTEXT)
    groups: list[list[tuple[Probe, int]]] = [[(own, 1)], [(steps, nodes) for nodes in NODES]]
    times: dict[tuple[Probe, int], list[float]] = {key: [] for group in groups for key in group}
    for probe, rows in times:
        probe.time(rows)  # the first of a shape may set things up
    started = time.perf_counter()
    for turn, (probe, rows) in enumerate(in_turns(groups, MOST_ROUNDS)):
        late = time.perf_counter() - started > SECONDS
        if turn >= FEWEST_ROUNDS * len(times) and turn % len(times) == 0 and late:
            break
        settle(probe, rows, SETTLING)
        times[probe, rows] += [probe.time(rows) for _ in range(TIMED)]
    one = usual(times[own, 1])
    return Latency.of((nodes, usual(times[steps, nodes]) / one) for nodes in NODES)


def measured_steps(
    target: Target, steps: Probe, subject: Mapping[str, str], directory: Path | None
) -> Latency | None:
    """Return what `measure_steps` does, kept in a directory for the next run; None keeps nothing.

    `subject`: whatever the times depend on, the drafter's fingerprint among it.
    """
    path = None if directory is None else kept.path_of(directory, {"steps": str(_VERSION), **subject})
    found = kept.read(path)
    if found is not None:
        with contextlib.suppress(ValueError, TypeError, KeyError, AssertionError):
            return Latency(tuple(found["rows"]), tuple(found["milliseconds"]))
    made = measure_steps(target, steps)
    if made is not None:
        kept.write(path, {"rows": made.rows, "milliseconds": made.milliseconds})
    return made
