"""What a pass drafts, where nodes cost time: cut to what pays, without a trace in the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
import torch

from conftest import VOCAB, plain_tokens, toy_model
from matrix import ALL_DRAFTERS, make_drafter
from outrider.engine.engine import Engine
from outrider.loop.accept.enumeration import EnumeratingSource, Outcome, law_of
from outrider.loop.draft.base import Ask
from outrider.loop.draft.none import NoDrafter
from outrider.models.toy import ToyTarget
from outrider.planner.latency import Latency
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree
from reference import reference_law, settings

TARGET = ToyTarget(VOCAB, seed=1)
PROMPTS = [[0, 1, 2], [4, 5, 4, 5, 4, 5, 4], [3]]
CHEAP = Latency((1, 4, 8, 16), (10.0, 10.5, 12.0, 20.0))
STEEP = Latency((1, 2), (10.0, 20.0))


def run_all(drafter: Any, params: SamplingParams, latency: Latency | None, **options: Any) -> list[Any]:
    engine = Engine(toy_model(TARGET), drafter, drafter_name="it", latency=latency, budget=6, **options)
    requests = [engine.submit(prompt, params) for prompt in PROMPTS]
    while engine.busy:
        engine.step()
    return [request.result for request in requests]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", ALL_DRAFTERS)
def test_what_nodes_cost_leaves_no_trace_in_the_text(name: str, temperature: float) -> None:
    params = settings(temperature=temperature, seed=7, max_tokens=24, ignore_eos=True)
    drafter = make_drafter(name, TARGET, share=Fraction(1))
    for result, prompt in zip(run_all(drafter, params, CHEAP), PROMPTS, strict=True):
        assert list(result.token_ids) == plain_tokens(TARGET, prompt, params, 24)


@dataclass
class Fixed(NoDrafter):
    """Always the same chain, with the same chances, and a law for each node where it is told to draw."""

    tokens: Sequence[int]
    chances: Sequence[float]
    has_law: bool = False  # type: ignore[misc]
    asked: list[int] = field(default_factory=list)
    name = "fixed"  # type: ignore[misc]
    weighs_costs = speculates = True  # type: ignore[misc]

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        self.asked.append(len(asks))
        trees = []
        for ask in asks:
            count = min(len(self.tokens), ask.budget)
            laws = None
            if self.has_law and ask.wants_laws and not ask.params.greedy:
                laws = [torch.eye(VOCAB)[token] for token in self.tokens[:count]]
            trees.append(DraftTree.chain(self.tokens[:count], laws, self.chances[:count]))
        return trees


def depth(drafter: Fixed, latency: Latency, **options: Any) -> int:
    """Return how deep the deepest draft was that a pass held."""
    params = settings(temperature=1.0, seed=1, max_tokens=8, ignore_eos=True)
    results = run_all(drafter, params, latency, **options)
    return max(len(result.speculation.drafted_per_position) for result in results)


def test_a_draft_is_cut_to_what_pays_unless_it_was_drawn_for_a_rule_that_minds() -> None:
    tokens, chances = [1, 2, 3], [0.3, 0.01, 0.01]
    dear = Latency((1, 2, 8), (10.0, 10.6, 16.0))
    assert depth(Fixed(tokens, chances), dear) == 1
    assert depth(Fixed(tokens, chances, has_law=True), dear, rule="coupled") == 1
    assert depth(Fixed(tokens, chances, has_law=True), dear, rule="rejection") == 3


def test_the_nodes_of_a_pass_go_to_the_requests_that_can_use_them() -> None:
    class Uneven(Fixed):
        def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
            likely = {True: [0.9, 0.8], False: [0.1, 0.05]}
            chances = [likely[ask.tokens[0] == 4][: ask.budget] for ask in asks]
            return [DraftTree.chain([1, 2][: len(own)], chances=own) for own in chances]

    params = settings(temperature=1.0, seed=1, max_tokens=6, ignore_eos=True)
    curve = Latency((1, 3, 5, 16), (10.0, 10.5, 12.0, 60.0))
    counts = [result.speculation.drafted for result in run_all(Uneven([], []), params, curve)]
    assert counts[1] > 0
    assert counts[0] == counts[2] == 0


def test_nobody_is_asked_where_not_even_right_guesses_would_pay() -> None:
    drafter = Fixed([1], [1.0])
    assert depth(drafter, STEEP) == 0
    assert drafter.asked == []


def test_a_request_whose_drafts_fail_is_asked_ever_more_rarely() -> None:
    drafter = Fixed([VOCAB - 1] * 3, [0.99, 0.98, 0.97])
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    engine = Engine(toy_model(target), drafter, drafter_name="it", latency=CHEAP, budget=3)
    params = settings(max_tokens=400, ignore_eos=True, banned_tokens=[VOCAB - 1])
    request = engine.submit([0, 1], params)
    while engine.busy:
        engine.step()
    assert request.result.speculation.accepted == 0  # type: ignore[union-attr]
    assert len(drafter.asked) < 250


@pytest.mark.parametrize("rule", ["rejection", "block", "recursive", "traversal"])
def test_the_law_of_the_text_is_the_target_s_where_nodes_cost(rule: str) -> None:
    target = ToyTarget(3, seed=3, order=1)
    params = settings(temperature=1.0, max_tokens=3, ignore_eos=True)
    curve = Latency((1, 2, 3, 6), (10.0, 12.0, 12.5, 19.0))

    def speculate(outcome: Outcome) -> tuple[int, ...]:
        made = make_drafter("auto with lm", target, share=Fraction(1, 2))
        model = toy_model(target)
        engine = Engine(model, made, drafter_name="it", rule=rule, budget=2, latency=curve)
        request = engine.submit([1, 0, 2, 1, 0], params, draws=EnumeratingSource(outcome))
        while engine.busy:
            engine.step()
        assert request.result is not None
        return request.result.token_ids

    for text, mass in law_of(speculate).items():
        p = 1.0
        for count, token in enumerate(text):
            p *= float(reference_law(target, params, [1, 0, 2, 1, 0], text[:count], ())[token])
        assert float(mass) == pytest.approx(p, abs=1e-4)
