"""Latency curves of real targets, for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from outrider.drafters import build_drafter, parse_drafter
from outrider.errors import OptionError
from outrider.loop.draft.level import Timed
from outrider.models.base import LoadedModel, Target
from outrider.planner.cost import CONTEXTS, ROWS, CostPoint, Probe, measure_curves
from outrider.planner.probe import TargetProbe
from outrider.registry import DRAFTERS


def measure_targets(
    targets: Sequence[Target],
    *,
    contexts: Sequence[int] = CONTEXTS,
    rows: Sequence[int] = ROWS,
    repeats: int = 9,
    steps: Sequence[Probe] = (),
) -> list[list[CostPoint]]:
    """Return the latency curve of each target, measured side by side; then what `steps` of drafters take.

    `steps`: one for each target or none; their ratios are over one row of that target. Contexts beyond the
    limit of one of them are left out for all.
    """
    probes = [TargetProbe(target) for target in targets]
    return measure_curves(probes, contexts=contexts, rows=rows, repeats=repeats, steps=steps)


def steps_of(drafter: str, target: LoadedModel, **loading: Any) -> Probe:
    """Load a drafter for a target and return what times its steps.

    `loading`: as for `build_drafter`. OptionError for one that runs no passes of its own.
    """
    made = build_drafter(drafter, target, **loading)
    if not hasattr(made, "probe"):
        raise no_steps(drafter)
    found: Probe = cast(Timed, made).probe()
    return found


def check_steps(drafter: str) -> None:
    """Refuse, before anything is loaded, a drafter that runs no passes of its own."""
    spec = parse_drafter(drafter)
    kinds = [DRAFTERS.load(name) for name in spec.parts or (spec.name,)]
    if spec.name == "auto" or not hasattr(kinds[-1], "probe"):
        raise no_steps(drafter)


def no_steps(drafter: str) -> OptionError:
    """Return the error about a drafter that has no steps to time."""
    able = [name for name in DRAFTERS if hasattr(DRAFTERS.load(name), "probe")]
    return OptionError(
        f"--drafter {drafter!r} has no steps to time; name one that runs passes of its own: {', '.join(able)}"
    )
