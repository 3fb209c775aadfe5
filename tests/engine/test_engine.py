"""Requests through the engine: ends, lengths, stops inside a run, streams, aborts, bad input."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import VOCAB, RandomTrees, plain_tokens, run, toy_model
from outrider.engine.engine import Engine
from outrider.engine.live import Stream
from outrider.engine.result import Origin, Result
from outrider.engine.scheduler import Limits
from outrider.errors import CapabilityError, OptionError, PromptError, UnknownNameError
from outrider.loop.draft.suffix import SuffixDrafter
from outrider.models.toy import ToyTarget
from outrider.sampling.params import SamplingParams

PROMPT = [4, 5, 4, 5, 4]


def both(params: SamplingParams, eos: tuple[int, ...] = (), seed: int = 1) -> list[Result]:
    """Run the same request plain and with three drafters."""
    target = ToyTarget(VOCAB, seed=seed)
    model = toy_model(target, eos)
    drafters: list[Any] = [RandomTrees(1), RandomTrees(2), SuffixDrafter.build(target, None, {})]
    plain = run(model, RandomTrees(0), [PROMPT], params, budget=0)
    return plain + [run(model, drafter, [PROMPT], params, budget=12)[0] for drafter in drafters]


@given(seed=st.integers(0, 10**6), length=st.integers(1, 30), eos=st.integers(0, VOCAB - 1))
@settings(max_examples=40, deadline=None)
def test_an_end_token_inside_a_run_cuts_it_there(seed: int, length: int, eos: int) -> None:
    params = SamplingParams(temperature=1.2, seed=seed, max_tokens=length)
    expected = plain_tokens(ToyTarget(VOCAB, seed=1), PROMPT, params, length)
    if eos in expected:
        expected = expected[: expected.index(eos) + 1]
    for result in both(params, (eos,)):
        assert list(result.token_ids) == expected
        assert result.finish_reason == ("stop" if expected[-1] == eos else "length")


@given(
    seed=st.integers(0, 10**6),
    stops=st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=1, max_size=3),
    length=st.integers(1, 40),
)
@settings(max_examples=60, deadline=None)
def test_a_stop_string_across_steps_cuts_text_tokens_and_counters_alike(
    seed: int, stops: list[str], length: int
) -> None:
    params = SamplingParams(temperature=1.2, seed=seed, max_tokens=length, stop=tuple(stops))
    target = ToyTarget(VOCAB, seed=1)
    text = "".join(chr(97 + token) for token in plain_tokens(target, PROMPT, params, length))
    # The stop that is completed first ends the text; of several completed by one token, the longest.
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    expected, reason = (text[: min(ends)[1]], "stop") if ends else (text, "length")
    for result in both(params):
        assert (result.text, result.finish_reason) == (expected, reason)
        assert "".join(chr(97 + token) for token in result.token_ids) == expected
        assert result.completion_tokens == len(result.origins) == result.speculation.tokens
        assert result.speculation.accepted == result.origins.count(Origin.DRAFTED)


@given(seed=st.integers(0, 10**6), stop=st.text("abcdefgh", min_size=1, max_size=3))
@settings(max_examples=40, deadline=None)
def test_a_stream_shows_exactly_the_text_and_never_takes_anything_back(seed: int, stop: str) -> None:
    target = ToyTarget(VOCAB, seed=1)
    engine = Engine(toy_model(target), RandomTrees(seed), drafter_name="random", budget=6)
    params = SamplingParams(temperature=1.0, seed=seed, max_tokens=30, stop=(stop,))
    request = engine.submit(PROMPT, params)
    chunks = []
    while engine.busy:
        chunks += [event.chunk for event in engine.step()]
    result = request.result
    assert result is not None
    assert "".join(chunk.text for chunk in chunks) == result.text
    assert [chunk.result for chunk in chunks].count(None) == len(chunks) - 1
    shown = [token for chunk in chunks for token in chunk.token_ids]
    assert shown[: len(result.token_ids)] == list(result.token_ids)


def test_the_length_asked_for_is_exact_whatever_is_drafted() -> None:
    for length in range(1, 20):
        for result in both(SamplingParams(seed=3, max_tokens=length, temperature=1.0)):
            assert result.completion_tokens == length
            assert result.finish_reason == "length"


def test_counters_add_up() -> None:
    for result in both(SamplingParams(seed=3, max_tokens=40, temperature=1.0)):
        made = result.speculation
        assert made.tokens == 40
        assert made.accepted == sum(made.accepted_per_position)
        assert made.accepted <= made.drafted
        assert made.mean_accepted_length == 40 / made.passes
        assert made.passes <= 40


def test_plain_decoding_has_a_mean_accepted_length_of_one() -> None:
    plain = both(SamplingParams(seed=3, max_tokens=15))[0]
    assert plain.speculation.mean_accepted_length == 1.0
    assert plain.speculation.acceptance_rate is None
    assert set(plain.origins) == {Origin.PLAIN}


def test_requests_without_a_seed_differ_and_say_which_seed_repeats_them() -> None:
    target = ToyTarget(VOCAB, seed=1)
    params = SamplingParams(temperature=1.5, max_tokens=40)
    results = run(toy_model(target), RandomTrees(1), [PROMPT, PROMPT, PROMPT], params)
    assert len({result.token_ids for result in results}) == 3
    again = SamplingParams(temperature=1.5, max_tokens=40, seed=results[0].seed)
    assert run(toy_model(target), RandomTrees(5), [PROMPT], again)[0].token_ids == results[0].token_ids


def test_an_aborted_request_gives_what_there_is_and_leaves_the_others_alone() -> None:
    target = ToyTarget(VOCAB, seed=1)
    engine = Engine(toy_model(target), RandomTrees(1), drafter_name="random")
    params = SamplingParams(temperature=1.0, seed=1, max_tokens=30)
    first, second, waiting = (engine.submit(PROMPT, params) for _ in range(3))
    engine.step()
    engine.step()
    event = engine.abort(first)
    assert event is not None
    assert first.result is not None
    assert first.result.finish_reason == "abort"
    assert 2 <= first.result.completion_tokens < 30
    assert engine.abort(first) is None
    engine.abort(waiting)
    while engine.busy:
        engine.step()
    assert second.result is not None
    assert list(second.result.token_ids) == plain_tokens(target, PROMPT, params, 30)


def test_a_request_submitted_later_joins_the_ones_that_run() -> None:
    target = ToyTarget(VOCAB, seed=1)
    engine = Engine(toy_model(target), RandomTrees(1), drafter_name="random", limits=Limits(running=2))
    params = SamplingParams(temperature=1.0, seed=1, max_tokens=20)
    requests = []
    for _ in range(6):
        requests.append(engine.submit(PROMPT, params))
        engine.step()
    while engine.busy:
        engine.step()
    expected = tuple(plain_tokens(target, PROMPT, params, 20))
    assert [request.result.token_ids for request in requests if request.result] == [expected] * 6


def test_a_long_prompt_is_read_in_pieces_beside_a_short_one() -> None:
    target = ToyTarget(VOCAB, seed=1)
    long = [index % VOCAB for index in range(1000)]
    params = SamplingParams(temperature=1.0, seed=1, max_tokens=12)
    results = run(toy_model(target), RandomTrees(1), [long, PROMPT, long[:513], long[:257]], params)
    for prompt, result in zip([long, PROMPT, long[:513], long[:257]], results, strict=True):
        assert list(result.token_ids) == plain_tokens(target, prompt, params, 12)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ([], "empty"),
        ([0] * 32, "holds 32"),
        ([0] * 40, "shorten it by at least 9"),
        ([1, 8], "token id 8"),
        ([-1, 1], "token id -1"),
    ],
)
def test_a_prompt_that_cannot_be_run_says_why(prompt: list[int], words: str) -> None:
    target = ToyTarget(VOCAB, seed=1, context_limit=32)
    engine = Engine(toy_model(target), RandomTrees(1), drafter_name="random")
    with pytest.raises(PromptError, match=words):
        engine.submit(prompt, SamplingParams())


def test_options_that_cannot_be_honoured_are_refused() -> None:
    model = toy_model(ToyTarget(VOCAB, seed=1))
    with pytest.raises(OptionError, match="budget"):
        Engine(model, RandomTrees(1), drafter_name="random", budget=-1)
    engine = Engine(model, RandomTrees(1), drafter_name="random", rule="greedy")
    with pytest.raises(CapabilityError, match="temperature"):
        engine.submit(PROMPT, SamplingParams(temperature=0.5))
    with pytest.raises(UnknownNameError, match="did you mean 'rejection'"):
        Engine(model, RandomTrees(1), drafter_name="random", rule="rejektion")
    with pytest.raises(OptionError, match="lossy=True"):
        Engine(model, RandomTrees(1), drafter_name="random", rule="typical")
    with pytest.raises(OptionError, match="less than 'same_tokens'"):
        Engine(model, RandomTrees(1), drafter_name="random", rule="traversal", guarantee="same_tokens")


@given(taken=st.integers(0, 10))
@settings(max_examples=10, deadline=None)
def test_a_stream_that_is_closed_gives_the_tokens_committed_until_then(taken: int) -> None:
    target = ToyTarget(VOCAB, seed=1)
    engine = Engine(toy_model(target), RandomTrees(1), drafter_name="random")
    params = SamplingParams(temperature=1.0, seed=1, max_tokens=30)
    with Stream(engine, engine.submit(PROMPT, params)) as stream:
        chunks = [next(stream) for _ in range(taken)]
        result = stream.close()
    assert result.finish_reason == "abort"
    shown = [token for chunk in chunks for token in chunk.token_ids]
    assert list(result.token_ids) == shown == plain_tokens(target, PROMPT, params, 30)[: len(shown)]
    assert result.timing.prefill_seconds >= 0
    assert not engine.busy


def test_an_engine_that_may_run_nothing_is_refused() -> None:
    """It used to be accepted, and its requests waited for ever."""
    with pytest.raises(OptionError, match="running=0"):
        Engine(toy_model(ToyTarget(VOCAB)), RandomTrees(1), drafter_name="random", limits=Limits(running=0))
