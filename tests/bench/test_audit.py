"""An audit finds what breaks a promise: in a rule, in a drafter, in the loop, on the real model."""

from __future__ import annotations

import math
from typing import Any

import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import toy_model
from outrider.bench.audit.laws import chi_square, law_checks, transform
from outrider.bench.audit.loop import loop_checks
from outrider.llm import LLM
from outrider.loop.accept.rejection import Rejection
from outrider.loop.draft.lm import ModelDrafter
from outrider.models.toy import ToyTarget
from outrider.registry import DRAFTERS, RULES
from outrider.sampling.draws import Draws
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree, Guarantee, Scored, Verdict

SAMPLED = SamplingParams(temperature=1.0)


class KeepsAll:
    """Claims to keep the law, and keeps every guess."""

    name = "keeps all"
    guarantee = Guarantee.SAME_LAW
    serves_trees = False
    siblings = Rejection.siblings
    reads_laws = True
    shares_noise = False
    samples = True

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        last = len(scored.tree)
        return Verdict(tuple(range(last)), draws.token(scored.laws[last], last))


class OtherTokens(KeepsAll):
    """Claims to keep the tokens, with noise of its own."""

    guarantee = Guarantee.SAME_TOKENS

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        return Verdict((), draws.token(scored.laws[0], 0))


class Liar(ModelDrafter):
    """Draws from its model's law and says that it drew from a uniform one."""

    def propose(self, asks: Any) -> list[DraftTree]:
        trees = super().propose(asks)
        return [
            DraftTree(t.tokens, t.parents, t.laws and tuple(torch.full_like(p, 1 / len(p)) for p in t.laws))
            for t in trees
        ]


def failures(drafter: str, rule: str, params: SamplingParams = SAMPLED) -> list[str]:
    checks = list(loop_checks(drafter, rule, None, params))
    assert len(checks) == 4
    return [check.detail for check in checks if not check.passed]


def register(monkeypatch: pytest.MonkeyPatch, table: Any, name: str, made: type) -> None:
    monkeypatch.setitem(table._own, name, f"{__name__}:{made.__name__}")


@pytest.mark.parametrize("rule", ["auto", "rejection", "traversal"])
@pytest.mark.parametrize("drafter", ["suffix", "lm:anything", "eagle:any", "merged:suffix+medusa:any"])
def test_the_loop_keeps_its_promise_in_every_outcome(drafter: str, rule: str) -> None:
    assert failures(drafter, rule) == []


def test_the_loop_keeps_its_promise_under_options() -> None:
    params = SamplingParams(temperature=0.8, top_p=0.9, repetition_penalty=1.3, frequency_penalty=0.2)
    assert failures("lm:anything", "recursive", params) == []
    assert failures("suffix", "greedy", SamplingParams(repetition_penalty=1.3)) == []


def test_options_that_leave_no_token_in_a_small_vocabulary_are_said_not_to_be_looked_at() -> None:
    checks = list(loop_checks("suffix", "auto", None, SamplingParams(no_repeat_ngram_size=1)))
    assert any("not looked at" in check.detail for check in checks)


def test_a_rule_that_breaks_the_law_is_found_by_the_loop_and_by_the_law_of_its_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register(monkeypatch, RULES, "keeps all", KeepsAll)
    assert any("has probability" in detail for detail in failures("lm:anything", "keeps all"))

    target = ToyTarget(8, seed=1, zeros=0.0)
    drafter = ModelDrafter(ToyTarget(8, seed=2, zeros=0.0), 8)

    def verdicts(rule: str) -> list[bool]:
        llm = LLM(toy_model(target), drafter, drafter_name="lm", rule=rule, budget=3)
        monkeypatch.setattr(LLM, "encode", lambda self, text, chat=False: [len(text) % 8, 1])
        return [check.passed for check in law_checks(llm, SAMPLED, seeds=150)]

    assert verdicts("keeps all") == [False, False]
    assert verdicts("rejection") == [True, True]
    assert verdicts("coupled") == [True, True]


def test_a_rule_that_promises_the_tokens_and_gives_others_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, RULES, "other tokens", OtherTokens)
    assert any("where plain decoding emits" in detail for detail in failures("suffix", "other tokens"))


def test_a_drafter_that_names_another_law_than_it_drew_from_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, DRAFTERS, "liar", Liar)
    assert failures("liar:anything", "rejection") != []
    assert failures("liar:anything", "coupled") == []


def test_a_rule_that_promises_nothing_is_not_looked_at() -> None:
    checks = list(loop_checks("suffix", "typical", None, SAMPLED))
    assert all(check.passed and "not looked at" in check.detail for check in checks)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=6).filter(any), st.floats(0, 1, exclude_max=True))
def test_the_transform_of_a_tokens_own_law_is_uniform(weights: list[int], v: float) -> None:
    """The tokens cut [0, 1] into pieces as long as their probabilities, without a gap or an overlap."""
    law = torch.tensor(weights, dtype=torch.float64)
    pieces = sorted(
        (transform(law, token, 0.0), transform(law, token, 1.0))
        for token, weight in enumerate(weights)
        if weight
    )
    ends = [0.0, *(end for _, end in pieces)]
    assert ends[-1] == pytest.approx(1.0)
    for (start, _), before in zip(pieces, ends, strict=False):
        assert start == pytest.approx(before)
    token = weights.index(max(weights))
    assert transform(law, token, v) == pytest.approx(v * max(weights) / sum(weights))


def test_the_p_value_is_that_of_pearsons_test() -> None:
    counts = torch.tensor([12.0, 9.0, 11.0, 20.0, 8.0], dtype=torch.float64)
    expected = float(scipy.stats.chisquare(counts.numpy()).pvalue)
    assert math.isclose(chi_square(counts), expected, rel_tol=1e-9)
