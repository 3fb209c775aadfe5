"""Drafts under a constraint: forced tokens first, refused guesses left out, drawn ones never."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conftest import toy_model
from outrider.engine.grammar import grammar_of
from outrider.loop.draft.base import Ask
from outrider.loop.draft.constrained import begin_with, cut
from outrider.models.toy import ToyTarget
from outrider.sampling.keyed import SharedDraws
from outrider.sampling.params import SamplingParams
from outrider.sampling.processing import Processing, processing_of
from outrider.types import DraftTree, Law

LAW = torch.full((8,), 0.125)


def ask(forced: Sequence[int], budget: int = 9, branch: bool = True) -> Ask:
    return Ask(None, [0], budget, branch, SamplingParams(), SharedDraws(0, 0, 1), forced=forced)


def under(regex: str, ends: Sequence[int] = ()) -> Processing:
    params = SamplingParams(regex=regex)
    grammar = grammar_of(toy_model(ToyTarget(8)), params, ends)
    made = processing_of(params, [0], 1, end_tokens=ends, constraint=grammar)
    assert made is not None
    return made


def tree(
    tokens: Sequence[int], parents: Sequence[int], laws: Sequence[Law | None] | None = None
) -> DraftTree:
    return DraftTree(tuple(tokens), tuple(parents), None if laws is None else tuple(laws))


def test_guesses_that_agree_with_forced_tokens_go_on_behind_them() -> None:
    assert begin_with(ask([1, 2]), DraftTree.chain([1, 2, 3])) == DraftTree.chain([1, 2, 3])
    assert begin_with(ask([1, 2, 3]), DraftTree.chain([1])) == DraftTree.chain([1, 2, 3])
    assert begin_with(ask([1, 2]), DraftTree()) == DraftTree.chain([1, 2])
    assert begin_with(ask([]), DraftTree.chain([5])) == DraftTree.chain([5])


def test_other_guesses_stand_beside_forced_tokens_only_where_siblings_may() -> None:
    other = tree([1, 5, 6, 1], [-1, 0, -1, -1])
    assert begin_with(ask([1, 2]), other) == tree([1, 2, 5, 6], [-1, 0, 0, -1])
    assert begin_with(ask([1, 2], branch=False), DraftTree.chain([1, 5])) == DraftTree.chain([1, 2])


def test_forced_tokens_come_first_in_the_budget() -> None:
    assert begin_with(ask([1, 2], budget=3), tree([4, 5, 6], [-1, -1, -1])) == tree([1, 2, 4], [-1, 0, -1])


def test_what_does_not_fit_into_the_budget_is_cut_with_its_laws() -> None:
    guesses = tree([4, 5, 6], [-1, 0, 0], [None, LAW, LAW])
    fitted = begin_with(ask([1, 2], budget=4), guesses)
    assert fitted == tree([1, 2, 4, 5], [-1, 0, -1, 2], [None, None, None, LAW])


def test_a_tree_that_draws_in_place_of_forced_tokens_gives_way_to_them() -> None:
    """Whatever was drawn, so that no guess is left out for what it is."""
    for drawn in ([1, 2], [4, 2]):
        assert begin_with(ask([1]), DraftTree.chain(drawn, [LAW, LAW])) == DraftTree.chain([1])
    behind = DraftTree.chain([1, 2], [None, LAW])
    assert begin_with(ask([1]), behind) == behind


def test_what_the_grammar_refuses_is_cut_with_all_that_hangs_below_it() -> None:
    guesses = tree([0, 5, 1, 2, 4, 3], [-1, -1, 0, 1, 2, 2])
    assert cut(guesses, under("ab(d|f)|c")) == tree([0, 1, 3], [-1, 0, 1])
    assert cut(guesses, None) is guesses
    assert cut(DraftTree.chain([0, 1]), under("ab")) == DraftTree.chain([0, 1])


def test_nothing_is_drafted_after_the_end_of_the_text() -> None:
    assert cut(DraftTree.chain([0, 1, 0]), under("ab")) == DraftTree.chain([0, 1])
    assert cut(DraftTree.chain([0, 7, 0]), under("ab?", ends=[7])) == DraftTree.chain([0, 7])
    drawn = DraftTree.chain([0, 7, 0], [LAW, LAW, LAW])
    assert cut(drawn, under("ab?", ends=[7])) == DraftTree.chain([0, 7], [LAW, LAW])


def test_a_drawn_guess_is_not_cut_for_what_it_is() -> None:
    drawn = tree([3, 0, 2], [-1, -1, -1], [None, LAW, LAW])
    assert cut(drawn, under("b")) == tree([0, 2], [-1, -1], [LAW, LAW])
