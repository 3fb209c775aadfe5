"""Drafters that learn from the target's hidden states: what they are fed, in whatever way a text is run."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from conftest import VOCAB, RandomTrees, run, toy_model
from outrider.bench.failing import FailingDrafter
from outrider.cache.prefix import PrefixStore
from outrider.engine.engine import Engine
from outrider.engine.scheduler import Limits
from outrider.errors import CapabilityError
from outrider.loop.draft.auto import AutoDrafter
from outrider.models.base import NORMED, LoadedModel
from outrider.models.decoder import Decoder
from outrider.models.toy import ToyTarget, ToyTokenizer
from outrider.native import why_missing
from outrider.sampling.params import SamplingParams
from recording import Recording, check_recorded
from tiny import RandomSource, tiny_config

CONFIG = tiny_config(layers=3)
FEATURES = (2, NORMED, 0)
GREEDY = SamplingParams(max_tokens=30)
SHARED = [(5 * i + i // 3) % 97 for i in range(70)]
PROMPTS = [[3, 1, 4], SHARED, [*SHARED, 1, 2, 3], [9]]
NATIVE = pytest.param("native", marks=pytest.mark.skipif(bool(why_missing()), reason="not built"))
PASSES = ["pytorch", NATIVE]


@cache
def loaded(implementation: str) -> LoadedModel:
    source = RandomSource(CONFIG)
    target: Any
    if implementation == "pytorch":
        target = Decoder(CONFIG, source, weights="fp32", device=torch.device("cpu"))
    else:
        from outrider.native.decoder import NativeDecoder

        target = NativeDecoder(CONFIG, source, weights="fp32")
    return LoadedModel("tiny", target, ToyTokenizer(97))


@cache
def texts(implementation: str) -> list[list[int]]:
    results = run(loaded(implementation), RandomTrees(0, 97), PROMPTS, GREEDY, budget=0)
    return [[*prompt, *result.token_ids] for prompt, result in zip(PROMPTS, results, strict=True)]


SCHEDULES: dict[str, dict[str, Any]] = {
    "together": {},
    "one by one": {"limits": Limits(running=1)},
    "prompts in pieces": {"limits": Limits(read_rows=7, beside_rows=3)},
    "no drafts": {"budget": 0},
    "one guess": {"budget": 1},
}


@pytest.mark.parametrize("implementation", PASSES)
@pytest.mark.parametrize("branch", [True, False], ids=["trees", "chains"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_committed_token_comes_with_the_states_of_a_single_pass(
    schedule: str, branch: bool, implementation: str
) -> None:
    model, known = loaded(implementation), texts(implementation)
    drafter = Recording(FEATURES, known, branch=branch)
    results = run(model, drafter, PROMPTS, GREEDY, **{"budget": 9, **SCHEDULES[schedule]})
    assert [[*p, *result.token_ids] for p, result in zip(PROMPTS, results, strict=True)] == known
    check_recorded(model.target, drafter)
    assert [recorded.start for recorded in drafter.seen] == [0] * len(PROMPTS)
    if schedule == "together":
        assert sum(result.speculation.accepted for result in results) > 60


@pytest.mark.parametrize("implementation", PASSES)
def test_a_request_that_gave_way_is_fed_its_text_anew(implementation: str) -> None:
    model, known = loaded(implementation), texts(implementation)
    most = model.target.new_cache().bytes_with(len(known[2]) + 5)
    drafter = Recording(FEATURES, known)
    engine = Engine(model, drafter, drafter_name="recording", budget=5, limits=Limits(cache_bytes=most))
    requests = [engine.submit(PROMPTS[0], GREEDY), engine.submit(PROMPTS[1], GREEDY)]
    for _ in range(4):
        engine.step()
    requests.append(engine.submit(PROMPTS[2], GREEDY, priority=1))
    while engine.busy:
        engine.step()
    assert len(drafter.seen) > len(requests)
    assert any(len(recorded.tokens) > 75 for recorded in drafter.seen)
    check_recorded(model.target, drafter)
    for request, text in zip(requests, known, strict=False):
        assert request.sequence.tokens == text


@pytest.mark.parametrize("implementation", PASSES)
def test_behind_a_stored_prefix_states_begin_where_the_target_begins_to_read(implementation: str) -> None:
    model, known = loaded(implementation), texts(implementation)
    store = PrefixStore(64, 10**8)
    for _ in range(2):
        drafter = Recording(FEATURES, known)
        results = run(model, drafter, PROMPTS[1:3], GREEDY, budget=9, prefixes=store)
        assert [list(result.token_ids) for result in results] == [known[1][70:], known[2][73:]]
        check_recorded(model.target, drafter)
    assert [recorded.start for recorded in drafter.seen] == [64, 64]


@pytest.mark.parametrize("implementation", PASSES)
def test_prompt_logprobs_and_sampling_options_change_nothing_about_it(implementation: str) -> None:
    model, known = loaded(implementation), texts(implementation)
    params = SamplingParams(
        max_tokens=20, temperature=1.5, seed=3, prompt_logprobs=1, logprobs=2, frequency_penalty=0.5
    )
    drafter = Recording(FEATURES, known)
    run(model, drafter, PROMPTS, params, prefixes=PrefixStore(64, 10**8))
    check_recorded(model.target, drafter)


@pytest.mark.parametrize("implementation", PASSES)
def test_drafts_that_are_spoilt_are_fed_the_same_states(implementation: str) -> None:
    model, drafter = loaded(implementation), Recording(FEATURES, texts(implementation))
    run(model, FailingDrafter(drafter, 97), PROMPTS, GREEDY, budget=5)
    check_recorded(model.target, drafter)


def test_each_of_several_drafters_gets_the_features_that_it_wants() -> None:
    model, known = loaded("pytorch"), texts("pytorch")
    parts = [Recording((1,), known), Recording((), known), Recording((NORMED, 1, 0), known)]
    joined = AutoDrafter(parts)
    assert joined.features == (1, NORMED, 0)
    run(model, joined, PROMPTS, GREEDY, budget=5)
    for part in (parts[0], parts[2]):
        check_recorded(model.target, part)
    assert not any(recorded.fed for recorded in parts[1].seen)


def test_where_nobody_wants_features_nothing_is_captured() -> None:
    class Shy(Decoder):
        def run(self, *args: Any, captured: Any = (), **options: Any) -> Any:
            assert captured == ()
            return super().run(*args, **options)

    target = Shy(CONFIG, RandomSource(CONFIG), weights="fp32", device=torch.device("cpu"))
    drafter = Recording((), texts("pytorch"))
    run(LoadedModel("tiny", target, ToyTokenizer(97)), drafter, PROMPTS, GREEDY)
    assert not any(recorded.fed for recorded in drafter.seen)


def test_a_target_that_shows_no_states_or_has_too_few_layers_is_refused_with_the_reason() -> None:
    blind = ToyTarget(VOCAB)
    blind.can_capture = False
    with pytest.raises(CapabilityError, match=r"'recording' learns from the target's hidden states.*lean"):
        Engine(toy_model(blind), Recording((0,), []), drafter_name="recording")
    with pytest.raises(CapabilityError, match=r"after layer 3, counted from 0.* has 3 layers"):
        Engine(loaded("pytorch"), Recording((NORMED, 3), []), drafter_name="recording")
