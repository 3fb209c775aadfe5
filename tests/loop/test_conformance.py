"""Every registered drafter under every registered rule, through the whole loop."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
import torch

from conftest import VOCAB, plain_tokens, run, text_law, toy_model
from frequencies import follows
from matrix import ALL_DRAFTERS, FILTERS, make_drafter
from outrider.engine.scheduler import Limits
from outrider.loop.draft.lm import ModelDrafter
from outrider.models.base import LoadedModel
from outrider.models.decoder import Decoder
from outrider.models.toy import ToyTarget, ToyTokenizer
from outrider.registry import DRAFTERS, RULES
from outrider.sampling.params import SamplingParams
from outrider.types import Guarantee
from tiny import RandomSource, tiny_config

PROMPTS = [[0, 1, 2], [3], [4, 5, 4, 5, 4, 5, 4], [7, 6, 5, 4, 3, 2, 1, 0, 7, 6, 5]]


def settings(sampling: str, **more: Any) -> SamplingParams:
    return SamplingParams(**{"seed": 11, "max_tokens": 40, "ignore_eos": True, **FILTERS[sampling], **more})


def keeps_tokens(rule: str, sampling: str) -> bool:
    """At temperature 0 every rule does, since laws are points; above, those that promise it and sample."""
    kind, greedy = RULES.load(rule), settings(sampling).temperature == 0
    return greedy or (kind.guarantee is Guarantee.SAME_TOKENS and kind.samples)


KEEPING_TOKENS = [
    *((rule, sampling) for rule in RULES for sampling in FILTERS if keeps_tokens(rule, sampling)),
    *(("auto", sampling) for sampling in ("greedy", "sampled")),
]


@pytest.mark.parametrize(("rule", "sampling"), KEEPING_TOKENS)
@pytest.mark.parametrize("drafter", ALL_DRAFTERS)
def test_a_rule_of_same_tokens_emits_what_plain_decoding_emits(
    drafter: str, rule: str, sampling: str
) -> None:
    target, params = ToyTarget(VOCAB, seed=1), settings(sampling)
    results = run(toy_model(target), make_drafter(drafter, target), PROMPTS, params, rule=rule)
    assert [list(result.token_ids) for result in results] == plain_texts(sampling)


@cache
def plain_texts(sampling: str) -> list[list[int]]:
    """What plain decoding emits after each prompt: the same for every drafter and every rule."""
    return [plain_tokens(ToyTarget(VOCAB, seed=1), prompt, settings(sampling), 40) for prompt in PROMPTS]


@pytest.mark.parametrize("budget", [0, 1, 2, 5, 30])
@pytest.mark.parametrize("drafter", ALL_DRAFTERS)
def test_the_budget_changes_the_passes_but_not_the_tokens(drafter: str, budget: int) -> None:
    target, params = ToyTarget(VOCAB, seed=2), settings("sampled")
    [result] = run(toy_model(target), make_drafter(drafter, target), PROMPTS[:1], params, budget=budget)
    assert list(result.token_ids) == plain_tokens(target, PROMPTS[0], params, 40)
    assert result.speculation.drafted <= budget * result.speculation.passes


@pytest.mark.parametrize("drafter", ALL_DRAFTERS)
def test_a_request_gets_the_same_tokens_alone_and_in_any_batch(drafter: str) -> None:
    target, params = ToyTarget(VOCAB, seed=4), settings("sampled")
    together = run(
        toy_model(target), make_drafter(drafter, target), PROMPTS * 6, params, limits=Limits(running=5)
    )
    alone = [
        run(toy_model(target), make_drafter(drafter, target), [prompt], params)[0].token_ids
        for prompt in PROMPTS
    ]
    assert [result.token_ids for result in together] == alone * 6


@pytest.mark.parametrize("short", range(1, 9))
@pytest.mark.parametrize("drafter", ALL_DRAFTERS)
def test_a_prompt_close_to_the_context_limit_fills_it_exactly(drafter: str, short: int) -> None:
    target = ToyTarget(VOCAB, seed=1, context_limit=24)
    prompt = ([4, 5] * 12)[: 24 - short]
    params = SamplingParams(temperature=1.0, seed=5, max_tokens=None)
    [result] = run(toy_model(target), make_drafter(drafter, target), [prompt], params)
    assert result.finish_reason == "length"
    assert list(result.token_ids) == plain_tokens(target, prompt, params, short)


@pytest.mark.parametrize("drafter", ALL_DRAFTERS)
def test_the_law_of_three_tokens_under_rejection_is_the_target_s(drafter: str) -> None:
    """Chi-square through the whole loop; the exact enumeration of the rule stands beside it."""
    target = ToyTarget(4, seed=3, order=1)
    runs, length, prompt = 1200, 3, [1, 2, 1, 2, 1]
    model = toy_model(target)
    made = make_drafter(drafter, target, share=Fraction(1, 2))
    seen: Counter[tuple[int, ...]] = Counter()
    for seed in range(runs):
        params = SamplingParams(temperature=1.0, seed=seed, max_tokens=length, ignore_eos=True)
        [result] = run(model, made, [prompt], params, rule="rejection", budget=3)
        seen[result.token_ids] += 1
    assert follows(seen, text_law(target, prompt, length))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6, 8, 16])
def test_a_model_drafter_equal_to_the_target_is_always_accepted(k: int) -> None:
    """An off-by-one in the draft model's cache after full acceptance shows as acceptance that decays."""
    length = 500 // (k + 1) * (k + 1)
    target = ToyTarget(VOCAB, seed=1)
    drafter = DRAFTERS.load("lm").build(target, toy_model(target), {})
    for rule in ("coupled", "rejection"):
        params = settings("sampled", max_tokens=length)
        [result] = run(toy_model(target), drafter, [[0, 1, 2]], params, rule=rule, budget=k)
        assert result.speculation.accepted == result.speculation.drafted
        assert result.speculation.passes == length / (k + 1)


@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_model_that_is_the_target_is_always_accepted_on_caches_of_keys_and_values(
    k: int, temperature: float, decoder_class: type
) -> None:
    length = 500 // (k + 1) * (k + 1)
    config = tiny_config(vocab=VOCAB, context_limit=600)
    where = {"device": torch.device("cpu")} if decoder_class is Decoder else {}
    target = decoder_class(config, RandomSource(config, 0), weights="fp32", **where)
    model = LoadedModel("tiny", target, ToyTokenizer(VOCAB))
    drafter = ModelDrafter(target, VOCAB)  # its passes count as free, so that no chain ends early
    params = SamplingParams(temperature=temperature, seed=3, max_tokens=length, ignore_eos=True)
    [result] = run(model, drafter, [[0, 1, 2]], params, budget=k)
    assert result.speculation.accepted == result.speculation.drafted
    assert result.speculation.passes == length / (k + 1)


def test_a_model_drafter_with_a_shorter_context_stops_drafting_at_its_end() -> None:
    target = ToyTarget(VOCAB, seed=1)
    draft = ToyTarget(VOCAB, seed=1, context_limit=12)
    drafter = DRAFTERS.load("lm").build(target, toy_model(draft), {})
    params = settings("sampled", max_tokens=30)
    [result] = run(toy_model(target), drafter, [[0, 1, 2]], params)
    assert list(result.token_ids) == plain_tokens(target, [0, 1, 2], params, 30)
