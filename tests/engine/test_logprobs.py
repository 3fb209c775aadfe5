"""Logprobs of tokens, emitted or of the prompt: equal with and without speculation, cut with the text."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from conftest import VOCAB, RandomTrees, run, toy_model
from matrix import ALL_DRAFTERS, EOS, SAMPLINGS, make_drafter
from outrider.engine.engine import Engine
from outrider.engine.live import Stream
from outrider.loop.verify.pack import LOGPROB_ROWS
from outrider.models.toy import ToyTarget
from outrider.sampling import logprobs as sampling_logprobs
from outrider.sampling.params import SamplingParams
from reference import reference_law, settings

PROMPTS = [[0, 1, 2], [3], [4, 5, 4, 5, 4, 5, 4]]


@pytest.mark.parametrize("of", ["raw", "processed"])
@pytest.mark.parametrize("drafter", ALL_DRAFTERS)
@pytest.mark.parametrize(
    "sampling", ["greedy", "sampled", "penalties and filters", "everything", "min tokens, greedy"]
)
def test_they_are_those_of_the_slow_reference_and_equal_to_those_of_plain_decoding(
    sampling: str, drafter: str, of: str
) -> None:
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    options = {"ignore_eos": True, **SAMPLINGS[sampling]}
    params = settings(**options, logprobs=3, logprobs_of=of, max_tokens=20)
    plain = run(toy_model(target, EOS), make_drafter("none", target), PROMPTS, params)
    found = run(toy_model(target, EOS), make_drafter(drafter, target), PROMPTS, params)
    bare = settings(temperature=1.0)
    for prompt, expected, result in zip(PROMPTS, plain, found, strict=True):
        assert result.logprobs == expected.logprobs
        assert result.logprobs is not None
        assert [entry.token for entry in result.logprobs] == list(result.token_ids)
        for index, entry in enumerate(result.logprobs):
            before = result.token_ids[:index]
            p = reference_law(target, params if of == "processed" else bare, prompt, before, EOS)
            assert entry.logprob == pytest.approx(math.log(p[entry.token]), abs=1e-5)
            best = p.sort(descending=True, stable=True)
            count = min(3, int((p > 0).sum()))
            assert [value for _, value in entry.top] == pytest.approx(
                best.values[:count].log().tolist(), abs=1e-5
            )


@pytest.mark.parametrize("rule", ["rejection"])
def test_under_a_rule_of_same_law_they_are_of_the_law_of_the_target_not_of_the_residual(rule: str) -> None:
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    params = settings(temperature=1.0, logprobs=0, logprobs_of="processed")
    [result] = run(toy_model(target), make_drafter("lm", target), PROMPTS[:1], params, rule=rule)
    assert result.logprobs is not None
    for index, entry in enumerate(result.logprobs):
        p = reference_law(target, params, PROMPTS[0], result.token_ids[:index], ())
        assert entry.logprob == pytest.approx(math.log(p[entry.token]), abs=1e-5)


@given(
    seed=st.integers(0, 10**6),
    stops=st.lists(st.text("abcdefgh", min_size=1, max_size=3), max_size=2),
    eos=st.sampled_from([(), (3,)]),
)
@hypothesis_settings(max_examples=60, deadline=None)
def test_stops_cut_them_with_the_tokens_and_streams_carry_them_in_pieces(
    seed: int, stops: list[str], eos: tuple[int, ...]
) -> None:
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    params = SamplingParams(temperature=1.2, seed=seed, max_tokens=25, stop=tuple(stops), logprobs=2)
    free = SamplingParams(temperature=1.2, seed=seed, max_tokens=25, ignore_eos=True, logprobs=2)
    [whole] = run(toy_model(target), RandomTrees(0), [[0, 1]], free, budget=0)
    engine = Engine(toy_model(target, eos), RandomTrees(seed), drafter_name="random", budget=9)
    with Stream(engine, engine.submit([0, 1], params)) as stream:
        chunks = list(stream)
        result = stream.close()
    assert whole.logprobs is not None
    assert result.logprobs == whole.logprobs[: result.completion_tokens]
    assert all(len(chunk.logprobs) == len(chunk.token_ids) for chunk in chunks)
    assert tuple(entry for chunk in chunks for entry in chunk.logprobs) == result.logprobs


def test_a_request_that_is_aborted_has_those_of_its_tokens() -> None:
    engine = Engine(toy_model(ToyTarget(VOCAB, seed=1)), RandomTrees(1), drafter_name="random")
    with Stream(engine, engine.submit([0, 1], settings(temperature=1.0, logprobs=1))) as stream:
        next(stream)
        result = stream.close()
    assert result.logprobs is not None
    assert [entry.token for entry in result.logprobs] == list(result.token_ids)


@pytest.mark.parametrize("drafter", ALL_DRAFTERS)
@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 66, 129, 200])
def test_those_of_the_prompt_are_the_models_own_however_the_prompt_is_cut(length: int, drafter: str) -> None:
    target = ToyTarget(VOCAB, seed=1)
    prompt = [(index * index + index // 7) % VOCAB for index in range(length)]
    params = settings(temperature=0.7, prompt_logprobs=2, repetition_penalty=1.4, max_tokens=9)
    others = [settings(seed=3, max_tokens=20), settings(prompt_logprobs=0, max_tokens=4)]
    engine = Engine(toy_model(target), make_drafter(drafter, target), drafter_name=drafter)
    requests = [engine.submit(prompt, one) for one in (others[0], params, others[1])]
    while engine.busy:
        engine.step()
    none, result, bare = (request.result for request in requests)
    assert none is not None
    assert result is not None
    assert bare is not None
    assert none.prompt_logprobs is None
    assert result.logprobs is None
    assert result.prompt_logprobs is not None
    assert bare.prompt_logprobs is not None
    assert len(result.prompt_logprobs) == len(bare.prompt_logprobs) == length
    assert result.prompt_logprobs[0] is None
    for index, entry in enumerate(result.prompt_logprobs[1:], 1):
        assert entry is not None
        p = torch.tensor([float(p) for p in target.law(prompt[:index])], dtype=torch.float64)
        assert entry.token == prompt[index]
        assert entry.logprob == pytest.approx(float(p[prompt[index]].log()), abs=1e-5)
        assert [value for _, value in entry.top] == pytest.approx(p.topk(2).values.log().tolist(), abs=1e-5)


def test_a_prompt_whose_logprobs_are_wanted_is_read_in_small_pieces() -> None:
    class Watched(ToyTarget):
        wanted: list[int] = []  # noqa: RUF012

        def forward(self, batch, caches):  # type: ignore[no-untyped-def]
            self.wanted.append(len(batch.wanted))
            return super().forward(batch, caches)

    target = Watched(VOCAB, seed=1)
    run(toy_model(target), RandomTrees(1), [[0] * 500], settings(prompt_logprobs=0, max_tokens=1))
    assert len(target.wanted) == 8
    assert max(target.wanted) <= LOGPROB_ROWS


def test_nothing_is_worked_out_that_nobody_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: Any) -> None:
        raise AssertionError("logprobs were worked out")

    monkeypatch.setattr("outrider.sampling.law.of_logits", asked)
    monkeypatch.setattr("outrider.sampling.law.of_law", asked)
    monkeypatch.setattr("outrider.loop.commit.record.of_logits", asked)
    assert sampling_logprobs.of_logits is not asked
    target = ToyTarget(VOCAB, seed=1)
    [result] = run(toy_model(target), RandomTrees(1), [[0, 1]], settings(temperature=1.0))
    assert result.logprobs is None
    assert result.prompt_logprobs is None
    with pytest.raises(AssertionError, match="worked out"):
        run(toy_model(target), RandomTrees(1), [[0, 1]], settings(temperature=1.0, logprobs=0))
