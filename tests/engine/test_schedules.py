"""Any schedule gives every request the very tokens it gets alone, and leaves nothing behind."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import VOCAB, RandomTrees, plain_tokens, toy_model
from outrider.cache.prefix import PrefixStore
from outrider.engine.engine import Engine
from outrider.engine.request import Request
from outrider.engine.scheduler import Limits, share_rows
from outrider.errors import OptionError, OverloadedError, PromptError
from outrider.loop.draft.auto import AutoDrafter
from outrider.loop.draft.lm import ModelDrafter
from outrider.loop.draft.suffix import SuffixDrafter, SuffixOptions
from outrider.models.toy import ToyCache, ToyTarget
from outrider.planner.latency import Latency
from outrider.sampling.params import SamplingParams

TARGET = ToyTarget(VOCAB, seed=1)
BYTES = 8
"""Of a token in the toy's cache."""


class Counted:
    """A drafter that counts what is open, and notes the caches it is given."""

    def __init__(self, drafter: Any) -> None:
        self._drafter = drafter
        self.open_now = 0
        self.given: list[ToyCache] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)

    def open(self, prompt: Any, tenant: str = "", *caches: Any) -> Any:
        self.open_now += 1
        self.given += itertools.chain(*caches)
        return self._drafter.open(prompt, tenant, *caches)

    def close(self, state: Any) -> None:
        self.open_now -= 1
        self._drafter.close(state)


@dataclass
class Planned:
    """A request of a random schedule."""

    arrives: int
    prompt: list[int]
    params: SamplingParams
    priority: int
    ends: int | None
    naps: range
    tenant: str


def planned(chance: random.Random, beginnings: list[list[int]]) -> Planned:
    prompt = chance.choice(beginnings) + [chance.randrange(VOCAB) for _ in range(chance.randint(1, 6))]
    start = chance.randrange(30)
    nap = chance.randrange(40)
    return Planned(
        start,
        prompt,
        SamplingParams(
            temperature=chance.choice([0.0, 0.7, 1.3]),
            seed=chance.randrange(5),
            max_tokens=chance.randint(1, 20),
            repetition_penalty=chance.choice([1.0, 1.3]),
            frequency_penalty=chance.choice([0.0, 0.0, 0.6]),
            logit_bias=chance.choice([{}, {chance.randrange(VOCAB): 2.0}]),
            top_k=chance.choice([0, 0, 3]),
            min_p=chance.choice([0.0, 0.0, 0.1]),
            banned_tokens=chance.choice([(), (), (chance.randrange(VOCAB),)]),
            stop_token_ids=chance.choice([(), (), (5,)]),
            stop=chance.choice([(), ("ab",)]),
        ),
        chance.choice([0, 0, 0, 1, -1]),
        start + chance.randint(0, 12) if chance.random() < 0.2 else None,
        range(nap, nap + chance.randint(1, 10)) if chance.random() < 0.2 else range(0),
        chance.choice(["", "a"]),
    )


def drafter_of(kind: str, seed: int) -> Counted:
    made: dict[str, Any] = {
        "random": RandomTrees(seed),
        "suffix": SuffixDrafter(SuffixOptions(past_tokens=20)),
        "lm": ModelDrafter(ToyTarget(VOCAB, seed=2, like=TARGET, share=0.7), VOCAB),
        "auto": AutoDrafter.build(TARGET, None, {}),
    }
    return Counted(made[kind])


def alone(plan: Planned) -> tuple[int, ...]:
    engine = Engine(toy_model(TARGET), RandomTrees(0), drafter_name="random", budget=0)
    request = engine.submit(plan.prompt, plan.params)
    while engine.busy:
        engine.step()
    assert request.result is not None
    return request.result.token_ids


@given(seed=st.integers(0, 10**9), drafter=st.sampled_from(["random", "suffix", "lm", "auto"]))
@settings(max_examples=500)
def test_every_schedule_gives_each_request_its_own_tokens_and_leaves_nothing(seed: int, drafter: str) -> None:
    """Arrivals, priorities, aborts, pauses, little memory, stored prefixes, pieces of prompts, options and
    what nodes cost, mixed.
    """
    chance = random.Random(seed)
    beginnings = [[], [1, 2, 3, 4, 5, 6, 7, 0], [1, 2, 3, 4, 4, 4]]
    plans = [planned(chance, beginnings) for _ in range(chance.randint(1, 7))]
    budget = chance.choice([0, 3, 8])
    longest = max(len(plan.prompt) + (plan.params.max_tokens or 0) for plan in plans) + budget
    most = (BYTES + BYTES * (drafter == "lm")) * longest
    limits = Limits(
        running=chance.choice([1, 2, 4]),
        read_rows=chance.choice([2, 5, 50]),
        beside_rows=chance.choice([1, 3, 50]),
        cache_bytes=chance.choice([None, most, 2 * most]),
    )
    store = PrefixStore(4, chance.choice([0, 64, 10**6])) if chance.random() < 0.7 else None
    made = drafter_of(drafter, seed)
    engine = Engine(
        toy_model(TARGET),
        made,
        drafter_name=drafter,
        budget=budget,
        limits=limits,
        prefixes=store,
        latency=chance.choice([None, Latency((1, 4, 8, 16), (10.0, 10.5, 12.0, 20.0), per_key=0.01)]),
    )
    requests: dict[int, Request] = {}
    shown: dict[int, str] = {}
    for turn in range(2000):
        for index, plan in enumerate(plans):
            if plan.arrives == turn:
                requests[index] = engine.submit(
                    plan.prompt, plan.params, priority=plan.priority, tenant=plan.tenant
                )
                shown[index] = ""
            if index in requests:
                requests[index].paused = turn in plan.naps
                if plan.ends == turn:
                    engine.abort(requests[index])
        for event in engine.step():
            [index] = [index for index, request in requests.items() if request is event.request]
            shown[index] += event.chunk.text
        if limits.cache_bytes is not None:
            held = sum(request.sequence.cache.nbytes for request in requests.values())
            held += sum(cache.nbytes for cache in made.given)
            assert held + (store.nbytes if store else 0) <= limits.cache_bytes
        if turn > 80 and not engine.busy:
            break
    assert not engine.busy
    for index, plan in enumerate(plans):
        request, expected = requests[index], alone(plan)
        assert request.result is not None
        found = request.result.token_ids
        if request.result.finish_reason == "abort":  # what might have become a stop string is given then
            uncut = alone(replace(plan, params=replace(plan.params, stop=())))
            assert found == uncut[: len(found)]
        else:
            assert found == expected
            assert shown[index] == request.result.text
        assert request.sequence.cache.nbytes == 0
        assert request.lease is None
        assert request.drafts == []
    assert made.open_now == 0
    assert sum(cache.nbytes for cache in made.given) == 0
    if store is not None:
        assert all(node.page.tokens == node.block for node in store._used)  # of both models
        store.free(10**9)
        assert store.nbytes == 0


@pytest.mark.parametrize("short_of_limit", range(1, 9))
def test_a_prompt_that_nearly_fills_the_context_gets_what_is_left(short_of_limit: int) -> None:
    limit = 24
    target = ToyTarget(VOCAB, seed=1, context_limit=limit)
    prompt = [token % VOCAB for token in range(limit - short_of_limit)]
    params = SamplingParams(temperature=1.0, seed=3, ignore_eos=True)
    expected = plain_tokens(target, prompt, params, short_of_limit)
    for drafter in ("random", "suffix", "lm"):
        engine = Engine(toy_model(target), drafter_of(drafter, 1), drafter_name=drafter, budget=12)
        request = engine.submit(prompt, params)
        while engine.busy:
            engine.step()
        assert request.result is not None
        assert list(request.result.token_ids) == expected
        assert request.result.finish_reason == "length"


def test_samples_of_one_prompt_read_it_once() -> None:
    """The later ones wait for the first to have read it, and begin with its pages."""
    read = []

    class Watched(ToyTarget):
        def forward(self, batch: Any, caches: Any) -> Any:
            read.append(len(batch))
            return super().forward(batch, caches)

    prompt = [1, 2, 3, 4] * 10
    engine = Engine(
        toy_model(Watched(VOCAB, seed=1)),
        RandomTrees(1),
        drafter_name="random",
        budget=0,
        prefixes=PrefixStore(4, 10**6),
    )
    params = SamplingParams(temperature=1.0, seed=1, max_tokens=1)
    requests = [engine.submit(prompt, params, sample=number) for number in range(5)]
    while engine.busy:
        engine.step()
    assert all(request.result is not None for request in requests)
    assert sum(read) == 40 + 4 * 4  # all of it once, then the last page of the four others


def test_a_request_that_can_never_fit_is_refused_at_once_with_its_size() -> None:
    engine = Engine(
        toy_model(TARGET), RandomTrees(1), drafter_name="random", limits=Limits(cache_bytes=100), budget=2
    )
    params = SamplingParams(max_tokens=10)
    with pytest.raises(PromptError, match=r"13 tokens.*120 bytes.*cache_bytes=100"):
        engine.submit([1, 2, 3], params)
    assert not engine.busy


def test_a_full_queue_refuses_and_says_when_to_come_again() -> None:
    engine = Engine(
        toy_model(TARGET), RandomTrees(1), drafter_name="random", limits=Limits(running=1, waiting=1)
    )
    params = SamplingParams(max_tokens=4)
    first = [engine.submit([1], params) for _ in range(2)]
    with pytest.raises(OverloadedError, match=r"2 requests wait already.*try again later") as refused:
        engine.submit([1], params)
    assert refused.value.retry_after is None
    while engine.busy:
        engine.step()
    [engine.submit([1], params) for _ in range(2)]
    with pytest.raises(OverloadedError, match=r"try again in about \d+ s") as refused:
        engine.submit([1], params)
    assert refused.value.retry_after is not None
    assert all(request.result is not None for request in first)


@pytest.mark.parametrize(
    "bad", [{"priority": 1.5}, {"timeout": 0}, {"timeout": "soon"}, {"timeout": float("nan")}]
)
def test_a_priority_or_a_timeout_that_means_nothing_is_refused(bad: dict[str, Any]) -> None:
    engine = Engine(toy_model(TARGET), RandomTrees(1), drafter_name="random")
    with pytest.raises(OptionError, match=next(iter(bad))):
        engine.submit([1], SamplingParams(), **bad)


def test_a_request_whose_time_is_over_ends_with_what_it_has() -> None:
    engine = Engine(toy_model(TARGET), RandomTrees(1), drafter_name="random")
    late = engine.submit([1], SamplingParams(max_tokens=1000, ignore_eos=True), timeout=1e-9)
    other = engine.submit([1], SamplingParams(max_tokens=5, ignore_eos=True))
    while engine.busy:
        engine.step()
    assert late.result is not None
    assert (late.result.finish_reason, late.result.token_ids) == ("timeout", ())
    assert other.result is not None
    assert other.result.completion_tokens == 5


@given(
    pending=st.lists(st.integers(2, 3000), min_size=1, max_size=6),
    rows=st.integers(1, 600),
)
def test_rows_are_shared_so_that_a_short_prompt_waits_for_no_long_one(pending: list[int], rows: int) -> None:
    class Reader:
        priority, most_rows = 0, 10**6

        def __init__(self, number: int, pending: int) -> None:
            self.number, self.sequence = number, self
            self.pending = pending

    readers: list[Any] = [Reader(number, left) for number, left in enumerate(pending)]
    given_rows = share_rows(readers, rows)
    assert sum(given_rows.values()) <= rows
    assert all(0 <= given_rows[reader.number] <= reader.pending for reader in readers)
    assert given_rows[0] > 0  # whoever came first goes on
    finishing = sum(r.pending for r in readers if given_rows[r.number] == r.pending)
    others = sum(given_rows[r.number] for r in readers if given_rows[r.number] < r.pending)
    if finishing:
        assert others <= max(1, finishing // 4)
    shortest = min(pending)
    if shortest <= rows - max(1, rows // 8):
        assert finishing >= shortest
