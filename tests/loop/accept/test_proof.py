"""The exact law of every rule, by enumeration; and the same check finding every known way to get it wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.loop.accept.arithmetic import positive_part
from outrider.loop.accept.coupled import Coupled
from outrider.loop.accept.enumeration import EnumeratingDraws, Outcome, Text, law_of, outcomes
from outrider.loop.accept.proof import ExactLaws, check, prove
from outrider.loop.accept.rejection import Rejection
from outrider.loop.accept.worlds import Case, Model, guessed, random_model, sampled
from outrider.registry import RULES
from outrider.sampling.draws import Draws
from outrider.types import DraftTree, Guarantee, Scored
from wrong_chains import WRONG_ON_CHAINS, CoupledToTheDraft, TakesTheDraft, Variant

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_keeps_its_guarantee_exactly(name: str) -> None:
    """Joint laws of two to four tokens, equal as fractions; registering a rule puts it under this test."""
    results = prove(RULES.load(name)(), cases=12, seed=1)
    assert [(check_name, detail) for check_name, passed, detail in results if not passed] == []
    assert results or RULES.load(name).guarantee is Guarantee.LOSSY


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from([(2, 0), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (5, 1)]),
    knows_law=st.booleans(),
    rule=st.sampled_from([Rejection(), Coupled()]),
)
def test_chains_of_any_shape_leave_the_law_as_it_is(
    seed: int, shape: tuple[int, int], knows_law: bool, rule: Any
) -> None:
    chance = random.Random(seed)
    size, length = shape
    if knows_law:
        draft = sampled(random_model(chance, size), length)
    else:
        draft = guessed(chance, size, range(-1, length - 1))
    assert check(rule, Case(random_model(chance, size), (draft, draft), 2)) is None


def test_equal_laws_are_accepted_without_exception() -> None:
    model = random_model(random.Random(8), 3)
    outcome_paths = set()
    for text, outcome in outcomes(lambda outcome: decide_once(Rejection(), model, model, outcome)):
        outcome_paths.add(len(text))
        assert outcome.weight > 0
    assert outcome_paths == {3}


def decide_once(rule: Any, target: Model, draft: Model, outcome: Outcome) -> Text:
    tree = sampled(draft, 2)((), EnumeratingDraws(outcome, "draft", 0))
    laws = ExactLaws(target, (), tree)
    verdict = rule.decide(Scored(tree, laws), EnumeratingDraws(outcome, "rule", 0))
    return (*(tree.tokens[node] for node in verdict.path), verdict.token)


def test_the_variant_without_a_mistake_passes() -> None:
    assert all(passed for _, passed, _ in prove(Variant(), cases=12, seed=1))


@pytest.mark.parametrize("variant", WRONG_ON_CHAINS)
def test_every_known_mistake_is_found(variant: type[Variant]) -> None:
    results = prove(variant(), cases=12, seed=1)
    assert not all(passed for _, passed, _ in results)
    assert all("probability" in detail for _, passed, detail in results if not passed)


def test_a_rule_that_keeps_the_law_but_not_the_tokens_is_found() -> None:
    """The promise of the same tokens is stronger than that of the same law, and is checked as such."""
    results = prove(CoupledToTheDraft(), cases=12, seed=1)
    assert any("plain decoding emits" in detail for _, passed, detail in results if not passed)


def test_a_lossy_rule_proves_nothing() -> None:
    assert prove(TakesTheDraft(), cases=1, seed=0) == []


def wrong_draft(drawn: Model, carried: Model) -> Callable[[Text, Draws], DraftTree]:
    def draft(text: Text, draws: Draws) -> DraftTree:
        token = draws.token(drawn(text), 0)
        return DraftTree.chain([token], [carried(text)])

    return draft


def test_a_draft_that_carries_another_law_than_it_was_drawn_from_is_found() -> None:
    """An argmax guess that carries the softmax law, the commonest mistake of all, and its reverse."""
    p, q, point = (HALF, HALF), (2 * THIRD, THIRD), (Fraction(1), Fraction(0))
    for drawn, carried in ((point, q), (q, point), (q, (THIRD, 2 * THIRD))):
        draft = wrong_draft(lambda _, law=drawn: law, lambda _, law=carried: law)  # type: ignore[misc]
        assert check(Rejection(), Case(lambda _: p, (draft,), 2)) is not None
    honest = wrong_draft(lambda _: q, lambda _: q)
    assert check(Rejection(), Case(lambda _: p, (honest,), 2)) is None


def picky_draft(model: Model) -> Callable[[Text, Draws], DraftTree]:
    """Drops a sampled guess when it is token 1, after having seen it."""

    def draft(text: Text, draws: Draws) -> DraftTree:
        tree = sampled(model, 1)(text, draws)
        return DraftTree() if tree.tokens == (1,) else tree

    return draft


def test_dropping_a_guess_for_what_it_is_breaks_rejection_but_not_the_coupled_rule() -> None:
    p, q = (HALF, HALF), (2 * THIRD, THIRD)
    case = Case(lambda _: p, (picky_draft(lambda _: q),), 2)
    assert check(Rejection(), case) is not None
    assert check(Coupled(), case) is None


def test_the_outcomes_of_a_run_have_mass_one_and_one_answer_for_each_question() -> None:
    def run(outcome: Outcome) -> Text:
        draws = EnumeratingDraws(outcome, "here", 0)
        same = EnumeratingDraws(outcome, "here", 0)
        token = draws.token([1, 2, 0, 3], 0)  # type: ignore[list-item]
        assert same.token([1, 2, 0, 3], 0) == token  # type: ignore[list-item]
        half, third = draws.accepts(HALF, 0), draws.accepts(THIRD, 0)
        assert half or not third, "u < 1/3 implies u < 1/2"
        assert same.accepts(HALF, 0) == half
        return token, int(half), int(third)

    law = law_of(run)
    assert sum(law.values()) == 1
    assert {text[0] for text in law} == {0, 1, 3}
    assert law[3, 1, 1] == HALF * THIRD
    assert law[3, 1, 0] == HALF * (HALF - THIRD)
    assert law[3, 0, 0] == HALF * HALF


def test_enumerated_siblings_are_draws_without_replacement_in_every_order() -> None:
    weights: Any = [Fraction(1), Fraction(2), Fraction(0), Fraction(3)]

    def run(outcome: Outcome) -> Text:
        draws = EnumeratingDraws(outcome, "draft", 0)
        siblings = draws.tokens(weights, 2, 0, -1)
        assert draws.tokens(weights, 3, 0, -1)[:2] == siblings
        assert len(draws.tokens(weights, 9, 0, -1)) == 3
        shared = EnumeratingDraws(outcome, None, 5)
        assert shared.tokens(weights, 1, 1, 4) == [EnumeratingDraws(outcome, None, 6).token(weights, 0)]
        return tuple(siblings)

    law = law_of(run)
    assert len(law) == 6
    assert all(law[a, b] == weights[a] / 6 * weights[b] / (6 - weights[a]) for a, b in law)


def test_positive_part_of_rationals_stays_rational() -> None:
    assert positive_part([HALF, HALF], [THIRD, 2 * THIRD]) == [HALF - THIRD, 0]
