"""From a rule's name, or from what is to be guaranteed, to the rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from outrider.errors import CapabilityError, OptionError
from outrider.loop.accept.base import Rule
from outrider.registry import LOSSY_RULES, RULES
from outrider.sampling import checks
from outrider.sampling.params import SamplingParams
from outrider.types import Guarantee

EXACT = (Guarantee.SAME_TOKENS, Guarantee.SAME_LAW)
"""What can be asked for, the stronger first."""


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """What a user said about the rule; checked when built, OptionError or UnknownNameError."""

    name: str = "auto"
    """A rule by name; "auto" takes one that keeps the guarantee."""
    guarantee: str | None = None
    """"same_tokens" or "same_law": what is needed. None: same tokens from "auto", nothing of a named rule."""
    lossy: bool = False
    """Consent to a rule that changes the law of the text; such a rule must be named, too."""

    def __post_init__(self) -> None:
        checks.switch("lossy", self.lossy)
        if self.guarantee is not None and self.guarantee not in EXACT:
            known = " or ".join(repr(str(guarantee)) for guarantee in EXACT)
            raise OptionError(f"guarantee={self.guarantee!r} is not allowed; give {known}")
        if self.name == "auto":
            return
        offered = _load(self.name).guarantee
        if offered is Guarantee.LOSSY and not self.lossy:
            raise OptionError(
                f"rule {self.name!r} changes the distribution of the text; if you accept that, say so with "
                "lossy=True (--allow-lossy), else take rule 'auto'"
            )
        if self.guarantee is not None and offered not in EXACT[: EXACT.index(Guarantee(self.guarantee)) + 1]:
            raise OptionError(
                f"rule {self.name!r} promises {str(offered)!r}, which is less than {self.guarantee!r}; "
                "leave the rule to 'auto', or ask for less"
            )


def resolve_rule(choice: RuleChoice, params: SamplingParams, *, has_law: bool, branches: bool) -> Rule:
    """Return the rule for one request. `has_law` and `branches` say what the drafter and the target can do.

    "auto" is greedy at temperature 0. Above, it is coupled where the same tokens are asked for or nothing is
    drawn; where the same law will do and guesses are drawn, traversal for trees and block for chains.
    CapabilityError for a rule that cannot sample at a temperature above 0.
    """
    name = choice.name
    if name == "auto":
        if params.temperature == 0:
            name = "greedy"
        elif choice.guarantee == Guarantee.SAME_LAW and has_law:
            name = "traversal" if branches else "block"
        else:
            name = "coupled"
    rule = _load(name)
    if params.temperature > 0 and not rule.samples:
        sampling = " or ".join(repr(other) for other in ("coupled", "rejection"))
        raise CapabilityError(
            f"rule {name!r} works at temperature 0 only, not at temperature {params.temperature}; "
            f"use {sampling}, or set the temperature to 0"
        )
    return rule


def can_sample(name: str) -> bool:
    """Tell whether the rule that a user named serves temperatures above 0."""
    return name == "auto" or _load(name).samples


def _load(name: str) -> Rule:
    lossy = isinstance(name, str) and name not in RULES and name in LOSSY_RULES
    table = LOSSY_RULES if lossy else RULES
    return cast(Rule, table.load(name)())
