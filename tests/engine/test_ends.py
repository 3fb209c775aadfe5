"""Stop tokens and stop strings that meet, streams and their results, and what is freed at the end."""

from __future__ import annotations

import gc
from dataclasses import replace
from fractions import Fraction

import pytest

from conftest import VOCAB, RandomTrees, plain_tokens, run, toy_model
from matrix import make_drafter
from outrider.engine.engine import Engine
from outrider.engine.live import Stream
from outrider.engine.result import Origin
from outrider.engine.scheduler import Limits
from outrider.loop.accept.greedy import Greedy
from outrider.models.toy import ToyCache, ToyTarget
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree

PROMPT = [4, 5, 4, 5, 4]


def letters(tokens: list[int]) -> str:
    return "".join(chr(97 + token) for token in tokens)


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_stop_tokens_of_the_request_end_it_with_and_without_the_model_s_own(ignore_eos: bool) -> None:
    target = ToyTarget(VOCAB, seed=1)
    base = {"temperature": 1.2, "seed": 4, "max_tokens": 40}
    text = plain_tokens(target, PROMPT, SamplingParams(**base), 40)
    stop, eos = text[9], text[4]
    ends = {stop} if ignore_eos else {stop, eos}
    count = next(index for index, token in enumerate(text) if token in ends) + 1
    params = SamplingParams(**base, stop_token_ids=(stop,), ignore_eos=ignore_eos)
    [result] = run(toy_model(target, (eos,)), RandomTrees(1), [PROMPT], params)
    assert list(result.token_ids) == text[:count]
    assert result.finish_reason == "stop"


def test_a_stop_string_is_left_out_also_where_a_stop_token_completes_it() -> None:
    target = ToyTarget(VOCAB, seed=1)
    base = {"temperature": 1.0, "seed": 3, "max_tokens": 30}
    text = plain_tokens(target, PROMPT, SamplingParams(**base), 30)
    first = text.index(text[4])
    params = SamplingParams(**base, stop=(letters([text[4]]),), stop_token_ids=(text[4],))
    [result] = run(toy_model(target), RandomTrees(1), [PROMPT], params)
    assert result.text == letters(text[:first])
    assert list(result.token_ids) == text[:first]


@pytest.mark.parametrize("drafter", ["none", "lm", "random trees"])
@pytest.mark.parametrize("length", [1, 3])
def test_a_stop_text_is_found_wherever_it_lies_among_the_steps(drafter: str, length: int) -> None:
    """In one run or across several. Stop texts made up at random mostly end a text with one letter, and did
    not show a search that forgot the steps before.
    """
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    for seed in range(2):
        free = SamplingParams(temperature=1.0, seed=seed, max_tokens=24)
        text = letters(plain_tokens(target, PROMPT, free, 24))
        for begin in range(0, 24 - length, 2):
            stop = text[begin : begin + length]
            params = replace(free, stop=(stop, "never"), logprobs=0)
            made = make_drafter(drafter, target, share=Fraction(1))
            [result] = run(toy_model(target), made, [PROMPT], params, budget=7)
            expected = text[: text.find(stop)]
            assert (result.text, result.finish_reason) == (expected, "stop")
            assert letters(list(result.token_ids)) == expected
            assert [entry.token for entry in result.logprobs or ()] == list(result.token_ids)
            assert result.speculation.tokens == len(expected) == len(result.origins)


@pytest.mark.parametrize("seed", range(30))
def test_the_tokens_of_a_stream_are_those_of_its_result(seed: int) -> None:
    engine = Engine(toy_model(ToyTarget(VOCAB, seed=1)), RandomTrees(seed), drafter_name="random")
    params = SamplingParams(temperature=1.0, seed=seed, max_tokens=30, stop=("gc", "fa", "bbb"))
    with Stream(engine, engine.submit(PROMPT, params)) as stream:
        chunks = list(stream)
        result = stream.close()
    assert [token for chunk in chunks for token in chunk.token_ids] == list(result.token_ids)
    assert [origin for chunk in chunks for origin in chunk.origins] == list(result.origins)


def test_a_stream_that_is_left_or_dropped_frees_its_request() -> None:
    engine = Engine(toy_model(ToyTarget(VOCAB, seed=1)), RandomTrees(1), drafter_name="random")
    params = SamplingParams(seed=1, max_tokens=30)
    with Stream(engine, engine.submit(PROMPT, params)) as stream:
        next(stream)
    assert not engine.busy
    dropped = Stream(engine, engine.submit(PROMPT, params))
    next(dropped)
    assert engine.busy
    del dropped
    gc.collect()
    assert not engine.busy


class Scripted(RandomTrees):
    """Drafts what it was told: the right tokens, then perhaps a wrong one."""

    def __init__(self, right: list[int], wrong: int | None) -> None:
        super().__init__()
        self._right, self._wrong = right, wrong

    def propose(self, asks):  # type: ignore[no-untyped-def]
        trees = []
        for ask in asks:
            done = len(ask.tokens) - len(PROMPT)
            tokens = self._right[done : done + 2]
            if self._wrong is not None and len(self._right) > done + 2:
                tokens.append((self._right[done + 2] + self._wrong) % VOCAB)
            trees.append(DraftTree.chain(tokens[: ask.budget]))
        return trees


@pytest.mark.parametrize(("wrong", "last"), [(1, Origin.CORRECTED), (None, Origin.BONUS)])
def test_origins_and_counters_tell_a_correction_from_a_bonus(wrong: int | None, last: Origin) -> None:
    target = ToyTarget(VOCAB, seed=1)
    params = SamplingParams(max_tokens=9)
    text = plain_tokens(target, PROMPT, params, 9)
    [result] = run(toy_model(target), Scripted(text, wrong), [PROMPT], params, rule=Greedy.name)
    assert list(result.token_ids) == text
    made = result.speculation
    assert made.passes == 3
    assert made.accepted == 6
    assert result.origins[:3] == (Origin.DRAFTED, Origin.DRAFTED, last)
    assert made.accepted_per_position[:2] == (3, 3)
    assert made.drafted_per_position[:2] == (3, 3)
    assert sum(made.drafted_per_position) == made.drafted
    assert result.prompt_tokens == len(PROMPT)
    assert result.timing.decode_tokens == 6
    assert 0 <= result.timing.decode_target_seconds < result.timing.target_seconds
    assert result.timing.draft_seconds > 0


def test_what_a_request_held_is_freed_when_it_ends() -> None:
    engine = Engine(toy_model(ToyTarget(VOCAB, seed=1)), RandomTrees(1), drafter_name="random")
    requests = [engine.submit(PROMPT, SamplingParams(seed=1, max_tokens=30)) for _ in range(3)]
    engine.step()
    engine.abort(requests[0])
    while engine.busy:
        engine.step()
    assert [request.sequence.cache.nbytes for request in requests] == [0, 0, 0]


@pytest.mark.parametrize("drafter", ["lm", "lm, width 3", "merged with lm"])
def test_a_draft_model_frees_its_cache_when_a_request_ends(drafter: str) -> None:
    """Or is aborted, or has never run."""
    target = ToyTarget(VOCAB, seed=1)
    caches: list[ToyCache] = []

    class Watched(ToyTarget):
        def new_cache(self) -> ToyCache:
            caches.append(super().new_cache())
            return caches[-1]

    made = make_drafter(drafter, target, model=Watched(VOCAB, seed=9, like=target))
    engine = Engine(toy_model(target), made, drafter_name="lm", limits=Limits(running=2))
    requests = [engine.submit(PROMPT, SamplingParams(seed=1, max_tokens=9)) for _ in range(3)]
    engine.step()
    assert [cache.nbytes > 0 for cache in caches] == [True, True]  # the third waits without one
    engine.abort(requests[0])
    while engine.busy:
        engine.step()
    assert [cache.nbytes for cache in caches] == [0, 0, 0]


def test_a_step_with_nothing_to_do_does_nothing() -> None:
    assert Engine(toy_model(ToyTarget(VOCAB, seed=1)), RandomTrees(1), drafter_name="random").step() == []
