"""Faults put into grammars under speculation, one by one: the comparisons find each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
import torch

import outrider.loop.propose as loop
from conftest import VOCAB, run, toy_model
from matrix import EOS, PREFIXED, make_drafter
from outrider.engine.engine import Engine
from outrider.errors import OutriderError
from outrider.loop.accept.enumeration import EnumeratingSource, Outcome, law_of
from outrider.loop.draft import constrained, lm
from outrider.models.toy import ToyTarget
from outrider.sampling.grammar import GrammarConstraint
from outrider.sampling.law import LogitLaws
from outrider.sampling.params import SamplingParams
from outrider.sampling.processing import Processing
from outrider.types import DraftTree
from reference import ended, reference_law, reference_tokens, settings

Patch = pytest.MonkeyPatch
TARGET = ToyTarget(VOCAB, seed=1, zeros=0.0)
SMALL = ToyTarget(3, seed=3, order=1, zeros=0.0)
PROMPTS = [[0, 1, 2], [4, 5, 4, 5, 4, 5, 4], [3]]
GRAMMARS = [name for name, options in PREFIXED.items() if {"regex", "choice", "grammar"} & set(options)]


def params_of(sampling: str) -> SamplingParams:
    return settings(**{"ignore_eos": True, **PREFIXED[sampling], "max_tokens": 20})


@cache
def expected(sampling: str) -> list[list[int]]:
    return [reference_tokens(TARGET, prompt, params_of(sampling), EOS) for prompt in PROMPTS]


def same_tokens() -> bool:
    """Compare texts under each grammar with the slow reference."""
    for sampling in GRAMMARS:
        for drafter in (make_drafter("random trees", TARGET), make_drafter("lm", TARGET, share=Fraction(1))):
            results = run(toy_model(TARGET, EOS), drafter, PROMPTS, params_of(sampling), budget=9)
            if [list(result.token_ids) for result in results] != expected(sampling):
                return False
    return True


def same_law(rule: str) -> bool:
    """Compare the law of a text of three tokens, over all outcomes, with the slow reference."""
    params = settings(temperature=1.0, regex="([ab]c?[ab])+", max_tokens=3)

    def speculate(outcome: Outcome) -> tuple[int, ...]:
        made = make_drafter("lm", SMALL, share=Fraction(1, 2))
        engine = Engine(toy_model(SMALL), made, drafter_name="lm", rule=rule, budget=2)
        request = engine.submit([1, 0, 2], params, draws=EnumeratingSource(outcome))
        while engine.busy:
            engine.step()
        assert request.result is not None
        return request.result.token_ids

    found = law_of(speculate)
    for text, mass in found.items():
        p = 1.0
        for count, token in enumerate(text):
            p *= float(reference_law(SMALL, params, [1, 0, 2], text[:count], ())[token])
        assert not ended(params, text, (), 3)
        if abs(p - float(mass)) > 1e-4:
            return False
    return True


def masks_ignore_the_path(patch: Patch) -> None:
    whole = GrammarConstraint.mask
    patch.setattr(GrammarConstraint, "mask", lambda self, path, size: whole(self, (), size))


def paths_stay_in_the_matcher(patch: Patch) -> None:
    patch.setattr(
        GrammarConstraint, "_move", lambda self, path: self._scout.try_consume_tokens(list(path)) >= 0
    )


def the_last_committed_token_is_not_told(patch: Patch) -> None:
    whole = GrammarConstraint.commit
    patch.setattr(GrammarConstraint, "commit", lambda self, tokens: whole(self, tokens[:-1]))


def masks_outlive_their_text(patch: Patch) -> None:
    whole = GrammarConstraint.commit

    def commit(self: GrammarConstraint, tokens: Sequence[int]) -> None:
        masks = dict(self._masks)
        whole(self, tokens)
        self._masks = masks

    patch.setattr(GrammarConstraint, "commit", commit)


def the_text_may_end_anywhere(patch: Patch) -> None:
    whole = GrammarConstraint._mask

    def mask(self: GrammarConstraint, path: tuple[int, ...]) -> Any:
        found = whole(self, path)
        if found is not None:
            found[torch.from_numpy(self._end_ids)] = True
        return found

    patch.setattr(GrammarConstraint, "_mask", mask)


def a_complete_text_goes_on(patch: Patch) -> None:
    patch.setattr(Processing, "is_over", lambda self, path: False)


def a_text_ends_where_it_may(patch: Patch) -> None:
    patch.setattr(
        GrammarConstraint, "is_over", lambda self, path: self._move(path) and self._scout.is_accepting()
    )


TOKEN_FAULTS: list[Callable[[Patch], None]] = [
    masks_ignore_the_path,
    paths_stay_in_the_matcher,
    the_last_committed_token_is_not_told,
    masks_outlive_their_text,
    the_text_may_end_anywhere,
    a_complete_text_goes_on,
    a_text_ends_where_it_may,
]


def unmasked_laws_of_the_draft_model(patch: Patch) -> None:
    patch.setattr(lm, "LogitLaws", lambda logits, params, *_: LogitLaws(logits, params))


def drawn_guesses_are_cut_for_what_they_are(patch: Patch) -> None:
    """As a filter after a drafter that knows nothing of the grammar would."""

    def cut(tree: DraftTree, processing: Processing | None) -> DraftTree:
        bare = constrained.cut(replace(tree, laws=None), processing)
        return replace(bare, laws=tree.laws[: len(bare)] if tree.laws else None, chances=None)

    patch.setattr(loop, "cut", cut)


def finds(comparison: Callable[[], bool]) -> bool:
    """Tell whether a comparison fails, or the loop itself notices."""
    try:
        return not comparison()
    except (OutriderError, AssertionError):
        return True


def test_without_a_fault_nothing_is_found() -> None:
    assert same_tokens()
    assert same_law("rejection")
    assert same_law("traversal")


@pytest.mark.parametrize("fault", TOKEN_FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_a_grammar_is_found(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    assert finds(same_tokens)


@pytest.mark.parametrize("rule", ["rejection", "block", "recursive", "traversal"])
def test_a_drawn_guess_may_be_refused_but_not_cut(rule: str, monkeypatch: Patch) -> None:
    """A draft law without the mask costs guesses only; cutting its refused guesses moves the law."""
    unmasked_laws_of_the_draft_model(monkeypatch)
    assert same_law(rule)
    drawn_guesses_are_cut_for_what_they_are(monkeypatch)
    assert finds(lambda: same_law(rule))
