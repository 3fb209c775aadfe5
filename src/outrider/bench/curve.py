"""Latency curves of real targets, for people to read."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.models.base import Target
from outrider.planner.cost import CONTEXTS, ROWS, CostPoint, measure_curves
from outrider.planner.probe import TargetProbe


def measure_targets(
    targets: Sequence[Target],
    *,
    contexts: Sequence[int] = CONTEXTS,
    rows: Sequence[int] = ROWS,
    repeats: int = 9,
) -> list[list[CostPoint]]:
    """Return the latency curve of each target, measured side by side.

    Contexts beyond the limit of one of them are left out for all.
    """
    probes = [TargetProbe(target) for target in targets]
    return measure_curves(probes, contexts=contexts, rows=rows, repeats=repeats)
