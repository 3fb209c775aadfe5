"""Every known way to get a rule on trees wrong is found by the proof."""

from __future__ import annotations

import random
from typing import Any

import pytest

from outrider.loop.accept.optimal import Optimal
from outrider.loop.accept.proof import check, prove
from outrider.loop.accept.recursive import Recursive
from outrider.loop.accept.traversal import Traversal
from outrider.loop.accept.worlds import KINDS, SHAPES, TREES, Case, no_guesses, planted, random_model
from slow_rules import BottomUp, Steps, TopDown
from wrong_leaves import WRONG_BOTTOM_UP
from wrong_rules import WRONG_TOP_DOWN


@pytest.mark.parametrize("rule", [TopDown(), BottomUp()])
def test_the_reference_without_a_mistake_passes(rule: Any) -> None:
    assert [result for result in prove(rule, cases=3, seed=1) if not result[1]] == []


def first_fault(rule: Any, cases: int = 12) -> str | None:
    """What `prove` would report first, without going on after it."""
    for name, kind in {**(TREES if rule.serves_trees else {}), **KINDS}.items():
        chance = random.Random(f"1:{name}")
        for _ in range(cases):
            fault = check(rule, kind(chance))
            if fault is not None:
                return fault
    return None


@pytest.mark.parametrize("rule", [*WRONG_TOP_DOWN, *WRONG_BOTTOM_UP])
def test_every_known_mistake_of_a_rule_on_trees_is_found(rule: type[Steps]) -> None:
    fault = first_fault(rule())
    assert fault is not None
    assert "probability" in fault


def test_every_shape_of_the_worlds_is_proved_for_both_ways_through_a_tree() -> None:
    chance = random.Random(5)
    for shape in SHAPES:
        draft = planted(random_model(chance, 3), shape, no_guesses)
        for rule in (Recursive(), Traversal(), Optimal()):
            assert check(rule, Case(random_model(chance, 3), (draft,), 2)) is None
