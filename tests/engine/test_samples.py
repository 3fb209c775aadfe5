"""Several samples of one prompt: told apart by their number, ranked by likelihood where asked."""

from __future__ import annotations

import math
from typing import Any

import pytest

from conftest import VOCAB, RandomTrees, toy_model
from outrider.engine.engine import Engine
from outrider.engine.result import Result
from outrider.engine.samples import gather, submit_samples
from outrider.errors import OptionError
from outrider.llm import LLM
from outrider.loop.draft.none import NoDrafter
from outrider.models.toy import ToyTarget
from outrider.sampling.constraint import Constraint
from reference import reference_law, settings

TARGET = ToyTarget(VOCAB, seed=1, zeros=0.0)


def llm(drafter: Any = None, rule: str = "auto") -> LLM:
    made = drafter or NoDrafter()
    return LLM(toy_model(TARGET), made, drafter_name=made.name, rule=rule, budget=None)


def test_sample_i_is_the_same_whatever_n_is_and_whatever_is_drafted() -> None:
    params = settings(temperature=1.3, seed=5)
    single = llm().generate([0, 1], params)
    assert single.samples == (single,)
    several = {n: llm().generate([0, 1], params, n=n) for n in (2, 5)}
    assert [sample.sample for sample in several[5].samples] == [0, 1, 2, 3, 4]
    assert len({sample.token_ids for sample in several[5].samples}) == 5
    assert several[5].token_ids == single.token_ids
    texts = [sample.token_ids for sample in several[5].samples]
    assert [sample.token_ids for sample in several[2].samples] == texts[:2]
    drafted = llm(RandomTrees(3)).generate([0, 1], params, n=5)
    assert [sample.token_ids for sample in drafted.samples] == texts
    assert all(sample.others == () for sample in several[5].samples)


def test_without_a_seed_the_samples_share_one_that_repeats_them() -> None:
    first = llm().generate([0, 1], temperature=1.3, n=3, max_tokens=20)
    assert len({sample.seed for sample in first.samples}) == 1
    assert len({sample.token_ids for sample in first.samples}) == 3
    again = llm().generate([0, 1], temperature=1.3, n=3, max_tokens=20, seed=first.seed)
    assert [sample.token_ids for sample in again.samples] == [sample.token_ids for sample in first.samples]


def test_several_prompts_have_their_own_samples() -> None:
    params = settings(temperature=1.3, seed=5, n=2)
    results = llm().generate([[0, 1], [2], "cd"], params)
    for prompt, result in zip([[0, 1], [2], [2, 3]], results, strict=True):
        alone = llm().generate(prompt, params)
        assert [s.token_ids for s in result.samples] == [s.token_ids for s in alone.samples]


def mean_logprob(result: Result, options: dict[str, Any]) -> float:
    params = settings(**options)
    total = 0.0
    for index, token in enumerate(result.token_ids):
        total += math.log(reference_law(TARGET, params, [0, 1], result.token_ids[:index], ())[token])
    return total / len(result.token_ids)


@pytest.mark.parametrize("rule", ["coupled", "rejection"])
def test_best_of_keeps_the_samples_whose_tokens_were_most_likely_on_average(rule: str) -> None:
    options = {"temperature": 1.3, "top_k": 6, "stop_token_ids": (3,), "frequency_penalty": 0.1}
    made = llm(RandomTrees(2), rule)
    every = made.generate([0, 1], settings(**options), n=6).samples
    best = made.generate([0, 1], settings(**options), n=2, best_of=6).samples
    ranked = sorted(every, key=lambda result: -mean_logprob(result, options))
    if rule == "coupled":
        assert [result.sample for result in best] == [result.sample for result in ranked[:2]]
        assert [result.token_ids for result in best] == [result.token_ids for result in ranked[:2]]
    assert best[0].mean_logprob is not None
    assert best[0].mean_logprob >= (best[1].mean_logprob or 0)
    for result in best:
        assert result.mean_logprob == pytest.approx(mean_logprob(result, options), abs=1e-5)
        assert result.logprobs is None
    assert every[0].mean_logprob is None


def test_a_single_stream_or_request_refuses_to_be_several() -> None:
    with pytest.raises(OptionError, match="n=3 asks for several texts"):
        llm().stream([0, 1], temperature=1.0, n=3)
    with pytest.raises(OptionError, match="best_of=2 asks for several texts"):
        llm().stream([0, 1], temperature=1.0, best_of=2)


def test_each_sample_has_a_constraint_of_its_own() -> None:
    class Counting(Constraint):
        def __init__(self) -> None:
            self.committed: list[int] = []

        def commit(self, tokens: Any) -> None:
            self.committed += tokens

        def mask(self, path: Any, vocab_size: int) -> None:
            return None

    made: list[Counting] = []

    def constraint() -> Counting:
        made.append(Counting())
        return made[-1]

    engine = Engine(toy_model(TARGET), RandomTrees(1), drafter_name="random")
    params = settings(temperature=1.3, n=3, max_tokens=10)
    requests = submit_samples(engine, [0, 1], params, constraint=constraint)
    while engine.busy:
        engine.step()
    samples = gather(requests, params).samples
    for counted, sample in zip(made, samples, strict=True):
        assert counted.committed == list(sample.token_ids)[: len(counted.committed)]
        assert len(counted.committed) > 0
