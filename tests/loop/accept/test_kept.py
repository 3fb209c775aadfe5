"""How much of a draft each rule keeps, exactly: by enumeration, against theory and published numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from outrider.loop.accept.block import Block
from outrider.loop.accept.coupled import Coupled
from outrider.loop.accept.enumeration import EnumeratingDraws, Outcome, Text, outcomes
from outrider.loop.accept.optimal import Optimal
from outrider.loop.accept.proof import ExactLaws
from outrider.loop.accept.recursive import Recursive
from outrider.loop.accept.rejection import Rejection
from outrider.loop.accept.traversal import Traversal
from outrider.loop.accept.worlds import (
    SHAPES,
    Draft,
    Model,
    likeliest,
    no_guesses,
    planted,
    random_model,
    sampled,
)
from outrider.types import Scored

QUARTER = Fraction(1, 4)


def kept(rule: Any, target: Model, draft: Draft) -> Fraction:
    """The mean number of drafted tokens that one step keeps."""

    def once(outcome: Outcome) -> Text:
        scopes = (None, None) if rule.shares_noise else ("draft", "rule")
        tree = draft((), EnumeratingDraws(outcome, scopes[0], 0))
        laws = ExactLaws(target, (), tree)
        return rule.decide(Scored(tree, laws), EnumeratingDraws(outcome, scopes[1], 0)).path

    return sum((outcome.weight * len(path) for path, outcome in outcomes(once)), Fraction(0))


def constant(*weights: int) -> Model:
    law = tuple(Fraction(weight, sum(weights)) for weight in weights)
    return lambda text: law


def distance(p: Any, q: Any) -> Fraction:
    return sum((abs(a - b) for a, b in zip(p, q, strict=True)), Fraction(0)) / 2


def test_the_published_series_of_accepted_tokens_comes_out() -> None:
    """Leviathan et al. (2211.17192), equation 1: with acceptance a at every position, a + a^2 + … + a^g."""
    target, draft = constant(7, 3), constant(1, 0)
    a = Fraction(7, 10)
    for length in range(6):
        expected = sum((a**i for i in range(1, length + 1)), Fraction(0))
        assert kept(Rejection(), target, sampled(draft, length)) == expected
    assert round(float(1 + kept(Rejection(), target, sampled(draft, 5))), 2) == 2.94


@pytest.mark.parametrize("seed", range(15))
def test_rejection_keeps_a_guess_with_the_chance_one_minus_the_distance(seed: int) -> None:
    chance = random.Random(seed)
    target, draft = random_model(chance, 4), random_model(chance, 4)
    for rule in (Rejection(), Block(), Recursive(), Traversal(), Optimal()):
        assert kept(rule, target, sampled(draft, 1)) == 1 - distance(target(()), draft(()))


def compare(better: Any, other: Any, make: Callable[[random.Random, Model], Draft]) -> int:
    """Check that one rule never keeps less on random worlds; return in how many it keeps more."""
    more = 0
    for seed in range(40):
        chance = random.Random(seed)
        target, draft = random_model(chance, 3), make(chance, random_model(chance, 3))
        gain = kept(better, target, draft) - kept(other, target, draft)
        assert gain >= 0
        more += gain > 0
    return more


def test_block_verification_never_keeps_less_of_a_chain_than_rejection() -> None:
    assert compare(Block(), Rejection(), lambda chance, model: sampled(model, 3)) >= 10


def test_traversal_never_keeps_less_of_a_drawn_tree_than_recursive_rejection() -> None:
    def tree(chance: random.Random, model: Model) -> Draft:
        return planted(model, chance.choice(SHAPES[:6]), no_guesses)

    assert compare(Traversal(), Recursive(), tree) >= 10


def test_the_optimal_rule_keeps_a_child_as_often_as_its_closed_form_says() -> None:
    for seed in range(30):
        chance = random.Random(seed)
        target, model = random_model(chance, 5), random_model(chance, 5)
        draft = planted(model, ((), (), ()), likeliest, apart=True)
        p, q = target(()), list(model(()))
        top = likeliest((), model(()), 3)
        expected = sum((p[token] for token in top), Fraction(0))
        rest = [Fraction(0) if token in top else value for token, value in enumerate(q)]
        if sum(rest):
            expected += sum((min(a, b / sum(rest)) for a, b in zip(p, rest, strict=True) if b), Fraction(0))
        assert kept(Optimal(), target, draft) == expected


def test_the_optimal_rule_never_keeps_less_of_its_trees_than_the_others() -> None:
    def tree(chance: random.Random, model: Model) -> Draft:
        return planted(model, ((), ()), likeliest, apart=True)

    assert compare(Optimal(), Recursive(), tree) >= 5
    assert compare(Optimal(), Traversal(), tree) >= 5


def test_more_siblings_keep_more_and_without_replacement_more_than_with() -> None:
    target, model = constant(5, 3, 2), constant(2, 3, 5)
    for rule in (Recursive(), Traversal()):
        alone, two, three = (kept(rule, target, planted(model, ((),) * k, no_guesses)) for k in (1, 2, 3))
        assert alone < two < three == 1
        assert kept(rule, target, planted(model, ((), ()), no_guesses, replaced=True)) < two


def test_guesses_made_without_a_draw_are_kept_with_the_target_s_probability() -> None:
    target, model = constant(1, 2, 1), constant(0, 1, 0)
    for rule in (Rejection(), Block(), Recursive(), Traversal(), Optimal(), Coupled()):
        assert kept(rule, target, sampled(model, 2)) == 3 * QUARTER
