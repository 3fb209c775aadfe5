"""What may be named in a benchmark under load: a drafter, one that is spoilt, one with a fixed budget."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.bench.failing import PREFIX as FAILING
from outrider.drafters import DrafterSpec, parse_drafter
from outrider.errors import OptionError

FIXED = "fixed:"
"""What stands before a budget and the name of a drafter that always drafts as much."""


@dataclass(frozen=True, slots=True)
class LoadName:
    """A contestant's name, taken apart."""

    name: str
    """As it was written."""
    drafter: str
    """The drafter's own name."""
    spec: DrafterSpec
    nodes: int | None = None
    """It is always asked for up to so many nodes, whatever they cost; None: as the planner decides."""
    fails: bool = False
    """Every guess is spoilt."""


def parse_load_name(text: str) -> LoadName:
    """Take `NAME`, `failing:NAME`, `fixed:K:NAME` or `fixed:K:failing:NAME` apart.

    OptionError for a K that is no whole number; errors of `parse_drafter` for a name that is no drafter's.
    """
    rest, nodes = text, None
    if rest.startswith(FIXED):
        number, _, rest = rest.removeprefix(FIXED).partition(":")
        if not number.isdecimal() or not rest:
            raise OptionError(
                f"{text!r}: write fixed:K:NAME, for K draft nodes of the drafter NAME, as in fixed:3:suffix"
            )
        nodes = int(number)
    drafter = rest.removeprefix(FAILING)
    if drafter.startswith((FIXED, FAILING)):
        raise OptionError(f"{text!r}: write fixed:K: once, then failing: once, then a drafter's name")
    return LoadName(text, drafter, parse_drafter(drafter), nodes, rest.startswith(FAILING))
