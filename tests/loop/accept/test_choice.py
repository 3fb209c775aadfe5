"""The choice of a rule by its name, or by what is to be guaranteed."""

from __future__ import annotations

import pytest

from outrider.errors import CapabilityError, OptionError, UnknownNameError
from outrider.loop.accept.base import Rule
from outrider.loop.accept.table import RuleChoice, resolve_rule
from outrider.registry import LOSSY_RULES, RULES
from outrider.sampling.params import SamplingParams
from outrider.types import Guarantee


def resolved(name: str, temperature: float, *, has_law: bool = True, branches: bool = True) -> Rule:
    params = SamplingParams(temperature=temperature)
    return resolve_rule(RuleChoice(name), params, has_law=has_law, branches=branches)


def test_auto_is_greedy_at_temperature_zero_and_coupled_above() -> None:
    assert resolved("auto", 0).name == "greedy"
    assert resolved("auto", 0.1).name == "coupled"


@pytest.mark.parametrize(
    ("has_law", "branches", "temperature", "name"),
    [
        (True, True, 1, "traversal"),
        (True, False, 1, "block"),
        (False, True, 1, "coupled"),
        (False, False, 1, "coupled"),
        (True, True, 0, "greedy"),
    ],
)
def test_where_the_same_law_will_do_auto_takes_the_rule_that_keeps_most(
    has_law: bool, branches: bool, temperature: float, name: str
) -> None:
    params, choice = SamplingParams(temperature=temperature), RuleChoice(guarantee="same_law")
    assert resolve_rule(choice, params, has_law=has_law, branches=branches).name == name
    choice = RuleChoice(guarantee="same_tokens")
    assert resolve_rule(choice, params, has_law=has_law, branches=branches).guarantee == "same_tokens"


def test_a_rule_that_cannot_sample_is_refused_above_temperature_zero() -> None:
    with pytest.raises(CapabilityError, match="'coupled' or 'rejection'"):
        resolved("greedy", 0.1)


def test_an_unknown_rule_is_named_with_its_neighbours() -> None:
    with pytest.raises(UnknownNameError, match="'rejection'"):
        RuleChoice("rejecton")


@pytest.mark.parametrize("name", LOSSY_RULES)
def test_a_rule_that_changes_the_law_needs_its_name_and_consent(name: str) -> None:
    assert name not in RULES
    with pytest.raises(OptionError, match="lossy=True"):
        RuleChoice(name)
    for guarantee in ("same_tokens", "same_law"):
        with pytest.raises(OptionError, match="less than"):
            RuleChoice(name, guarantee, lossy=True)
    params = SamplingParams(temperature=1.0)
    chosen = resolve_rule(RuleChoice(name, lossy=True), params, has_law=True, branches=True)
    assert chosen.guarantee is Guarantee.LOSSY
    # Consent alone chooses nothing.
    consented = resolve_rule(RuleChoice(lossy=True), params, has_law=True, branches=True)
    assert consented.guarantee is Guarantee.SAME_TOKENS


def test_a_named_rule_that_promises_less_than_was_asked_for_is_refused() -> None:
    with pytest.raises(OptionError, match="less than 'same_tokens'"):
        RuleChoice("rejection", "same_tokens")
    for name in RULES:
        RuleChoice(name, "same_law")
    for guarantee in ("lossy", "exact", ""):
        with pytest.raises(OptionError, match="'same_tokens' or 'same_law'"):
            RuleChoice(guarantee=guarantee)
