"""From a rule's name to the rule."""

from __future__ import annotations

from typing import cast

from outrider.errors import CapabilityError
from outrider.loop.accept.base import Rule
from outrider.registry import RULES
from outrider.sampling.params import SamplingParams


def resolve_rule(name: str, params: SamplingParams) -> Rule:
    """Return the rule called `name`; "auto" is greedy at temperature 0 and coupled otherwise.

    UnknownNameError for a name that stands in no table, CapabilityError for a rule that cannot sample at a
    temperature above 0.
    """
    if name == "auto":
        name = "greedy" if params.temperature == 0 else "coupled"
    rule = cast(Rule, RULES.load(name)())
    if params.temperature > 0 and not rule.samples:
        sampling = " or ".join(repr(other) for other in ("coupled", "rejection"))
        raise CapabilityError(
            f"rule {name!r} works at temperature 0 only, not at temperature {params.temperature}; "
            f"use {sampling}, or set the temperature to 0"
        )
    return rule
