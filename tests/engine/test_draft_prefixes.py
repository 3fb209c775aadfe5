"""A drafter's own caches: stored beside the target's, counted with them, gone when a request has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from conftest import VOCAB, RandomTrees, run, toy_model
from matrix import make_drafter
from outrider.cache.base import Cache
from outrider.cache.prefix import PrefixStore
from outrider.engine.engine import Engine
from outrider.engine.scheduler import Limits
from outrider.errors import PromptError
from outrider.loop.draft.auto import AutoDrafter
from outrider.loop.draft.lm import ModelDrafter
from outrider.loop.draft.suffix import SuffixDrafter
from outrider.models.base import LoadedModel
from outrider.models.toy import ToyTarget, ToyTokenizer
from outrider.registry import DRAFTERS
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree
from recording import Keeping, check_recorded, states_of
from tiny import RandomSource, tiny_config

CONFIG = tiny_config(layers=3)
TEXT = [(5 * i + i // 3) % 97 for i in range(150)]
PARAMS = SamplingParams(temperature=0.8, seed=3, max_tokens=30)


class Drafted:
    """Notes what a drafter drafts, and the caches that it is given."""

    def __init__(self, drafter: Any) -> None:
        self._drafter = drafter
        self.trees: list[DraftTree] = []
        self.given: list[Any] = []
        self.begun: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)

    def open(self, prompt: Sequence[int], tenant: str = "", caches: Sequence[Cache] = ()) -> Any:
        self.given += caches
        self.begun += [cache.length for cache in caches]
        return self._drafter.open(prompt, tenant, caches)

    def propose(self, asks: Any) -> list[DraftTree]:
        trees: list[DraftTree] = self._drafter.propose(asks)
        self.trees += trees
        return trees


def loaded(decoder_class: type, seed: int = 0) -> LoadedModel:
    options = {} if decoder_class.__name__ == "NativeDecoder" else {"device": torch.device("cpu")}
    target = decoder_class(CONFIG, RandomSource(CONFIG, seed), weights="fp32", **options)
    return LoadedModel("tiny", target, ToyTokenizer(97))


def drafter_of(name: str, target: LoadedModel, draft: LoadedModel) -> Any:
    if name == "auto":
        return AutoDrafter([SuffixDrafter(), ModelDrafter(draft.target, 97)])
    if name == "merged":
        return DRAFTERS.load(name).merge(target.target, draft, ["suffix", "lm"], {})
    return DRAFTERS.load("lm").build(target.target, draft, {} if name == "lm" else {"width": 3})


@pytest.mark.parametrize("name", ["lm", "lm, width 3", "merged", "auto"])
def test_a_reused_prefix_drafts_as_well_as_a_fresh_one(name: str, decoder_class: type) -> None:
    """The very same trees, also in a next turn, whose prompt begins with an answer."""
    model, draft = loaded(decoder_class), loaded(decoder_class, seed=1)
    made, store = drafter_of(name, model, draft), PrefixStore(64, 10**8)
    [first] = run(model, made, [TEXT], PARAMS, prefixes=store)
    turn = [*TEXT, *first.token_ids, *range(40)]
    for prompt, reused in ((TEXT, 128), ([*TEXT[:100], 7], 64), (turn, 128), ([*turn, 5], 192)):
        found, fresh = Drafted(made), Drafted(drafter_of(name, model, draft))
        results = [
            run(model, drafted, [prompt], PARAMS, prefixes=prefixes)[0]
            for drafted, prefixes in ((found, store), (fresh, None))
        ]
        assert results[0].token_ids == results[1].token_ids
        assert [tree.tokens for tree in found.trees] == [tree.tokens for tree in fresh.trees]
        assert any(len(tree) for tree in found.trees)
        assert (found.begun, fresh.begun) == ([reused], [0])


def test_where_its_pages_are_missing_the_draft_model_reads_for_itself_and_the_target_does_not() -> None:
    target = ToyTarget(VOCAB, seed=1)
    draft, store = ToyTarget(VOCAB, seed=2, like=target), PrefixStore(4, 10**6)
    prompt = [token % VOCAB for token in range(30)]
    plain = run(toy_model(target), RandomTrees(1), [prompt], PARAMS, budget=0, prefixes=store)
    found = Drafted(ModelDrafter(draft, VOCAB))
    engine = Engine(toy_model(target), found, drafter_name="lm", prefixes=store)
    request = engine.submit(prompt, PARAMS)
    engine.step()
    assert request.lease is not None
    assert request.lease.tokens >= 28
    while engine.busy:
        engine.step()
    assert request.result is not None
    assert request.result.token_ids == plain[0].token_ids
    assert found.begun == [0]
    fresh = Drafted(ModelDrafter(draft, VOCAB))
    run(toy_model(target), fresh, [prompt], PARAMS)
    assert fresh.trees == found.trees


def test_pages_of_one_drafter_s_model_are_never_given_to_another_s(decoder_class: type) -> None:
    """They are of one shape, and would be taken without a word."""
    model, store = loaded(decoder_class), PrefixStore(64, 10**8)
    for seed in (1, 2):
        found = Drafted(drafter_of("lm", model, loaded(decoder_class, seed)))
        fresh = Drafted(drafter_of("lm", model, loaded(decoder_class, seed)))
        run(model, found, [TEXT], PARAMS, prefixes=store)
        run(model, fresh, [TEXT], PARAMS)
        assert found.begun == [0]
        assert [tree.tokens for tree in found.trees] == [tree.tokens for tree in fresh.trees]


def test_guesses_that_were_turned_down_at_the_end_of_a_text_are_not_stored() -> None:
    """The draft model is not told what ended a text, so its cache may hold guesses in the place of that."""
    target, draft = ToyTarget(VOCAB, seed=1, zeros=0.0), ToyTarget(VOCAB, seed=2, zeros=0.0)
    for seed in range(40):
        store, params = PrefixStore(4, 10**6), SamplingParams(temperature=1.5, seed=seed, max_tokens=30)
        run(toy_model(target, (5,)), ModelDrafter(draft, VOCAB), [[1, 2, 3, 4]], params, prefixes=store)
        assert len(store) > 0
        assert all(node.page.tokens == node.block for node in store._used)


def test_what_target_and_draft_model_cannot_hold_together_is_refused_with_both_sizes() -> None:
    target = ToyTarget(VOCAB, seed=1)
    params, limits = SamplingParams(max_tokens=10), Limits(cache_bytes=200)
    for drafter in (RandomTrees(1), ModelDrafter(ToyTarget(VOCAB, seed=2), VOCAB)):
        engine = Engine(toy_model(target), drafter, drafter_name="x", limits=limits, budget=2)
        if isinstance(drafter, RandomTrees):
            engine.submit([1, 2, 3], params)  # 8 bytes a token
            continue
        with pytest.raises(PromptError, match=r"13 tokens.*240 bytes \(120 of them the drafter's\).*=200"):
            engine.submit([1, 2, 3], params)
    short = ModelDrafter(ToyTarget(VOCAB, seed=2, context_limit=6), VOCAB)  # its caches end there
    Engine(toy_model(target), short, drafter_name="x", limits=limits, budget=2).submit([1, 2, 3], params)


def test_what_a_drafter_s_caches_hold_is_counted_while_a_request_runs(decoder_class: type) -> None:
    model = loaded(decoder_class)
    drafter = drafter_of("lm", model, loaded(decoder_class, seed=1))
    engine = Engine(model, drafter, drafter_name="lm", budget=5)
    request = engine.submit(TEXT, PARAMS)
    engine.step()
    [held] = request.drafts
    assert held.cache.length >= len(TEXT)
    assert engine._running._own_bytes([request]) == request.sequence.cache.nbytes + held.cache.nbytes


def test_requests_that_fit_without_their_drafters_caches_but_not_with_them_take_turns(
    decoder_class: type,
) -> None:
    model, draft = loaded(decoder_class), loaded(decoder_class, seed=1)
    alone = model.target.new_cache().bytes_with(len(TEXT) + PARAMS.max_tokens + 5)  # type: ignore[operator]
    limits = Limits(cache_bytes=2 * alone)
    expected = run(model, RandomTrees(1, 97), [TEXT, TEXT[:140]], PARAMS, budget=0)
    for drafter, together in ((RandomTrees(1, 97), 2), (drafter_of("lm", model, draft), 1)):
        engine = Engine(model, drafter, drafter_name="x", budget=5, limits=limits)
        requests = [engine.submit(prompt, PARAMS) for prompt in (TEXT, TEXT[:140])]
        most = 0
        while engine.busy:
            engine.step()
            running = [request for request in requests if request.sequence.cache.nbytes]
            most = max(most, len(running))
            caches = [draft.cache for request in requests for draft in request.drafts]
            held = sum(cache.nbytes for cache in [r.sequence.cache for r in requests] + caches)
            assert held <= 2 * alone
        assert most == together
        found = [request.result.token_ids for request in requests if request.result]
        assert found == [result.token_ids for result in expected]


@pytest.mark.parametrize("name", ["lm", "lm, width 3", "merged with lm", "auto with lm"])
def test_nothing_of_a_drafter_s_caches_is_left_however_requests_end(name: str) -> None:
    target = ToyTarget(VOCAB, seed=1)
    drafter = Drafted(make_drafter(name, target))
    store = PrefixStore(4, 10**6)
    engine = Engine(toy_model(target), drafter, drafter_name=name, prefixes=store, budget=4,
                    limits=Limits(cache_bytes=16 * 60))  # fmt: skip
    prompts = [[n, *range(VOCAB), n] for n in range(4)]
    requests = [engine.submit(prompt, PARAMS, priority=n // 2) for n, prompt in enumerate(prompts)]
    for _ in range(3):
        engine.step()
    engine.abort(requests[2])
    for _ in range(3):
        engine.step()
    engine.abort(requests[3])
    while engine.busy:
        engine.step()
    assert len(drafter.given) >= 4
    assert [cache.nbytes for cache in drafter.given] == [0] * len(drafter.given)
    assert all(request.lease is None and not request.drafts for request in requests)
    assert store.nbytes == sum(node.page.nbytes for node in store._used) > 0
    assert all(node.holders == 0 for node in store._used)
    store.free(10**9)
    assert (store.nbytes, len(store), store._roots) == (0, 0, {})


def test_a_drafter_that_learns_from_states_has_all_of_them_behind_a_stored_prefix(
    decoder_class: type,
) -> None:
    """Those of the prefix come with its pages, but for the last token's, which is run again."""
    model, store = loaded(decoder_class), PrefixStore(64, 10**8)
    fresh = run(model, RandomTrees(1, 97), [TEXT], PARAMS, budget=0)[0]
    drafter = Keeping([[*TEXT, *fresh.token_ids]])
    for _ in range(3):
        [result] = run(model, drafter, [TEXT], PARAMS, prefixes=store)
        assert result.token_ids == fresh.token_ids
        check_recorded(model.target, drafter)
    assert drafter.begun == [0, 127, 127]
    for recorded in drafter.seen:
        expected = states_of(model.target, recorded.tokens[: recorded.end], drafter.features)
        assert torch.equal(recorded.whole, expected)  # type: ignore[attr-defined]


def test_no_more_of_a_prefix_is_reused_than_target_and_drafter_have_both(decoder_class: type) -> None:
    model, store = loaded(decoder_class), PrefixStore(64, 10**8)
    run(model, RandomTrees(1, 97), [TEXT], PARAMS, budget=0, prefixes=store)
    drafter = Keeping([])
    run(model, drafter, [TEXT[:100]], PARAMS, prefixes=store)  # the target's pages alone are stored
    run(model, drafter, [TEXT], PARAMS, prefixes=store)  # and now one of the drafter's
    assert drafter.begun == [0, 63]
    check_recorded(model.target, drafter)


def test_a_page_that_is_run_again_is_counted_as_the_copy_that_it_becomes(decoder_class: type) -> None:
    model, store, drafter = loaded(decoder_class), PrefixStore(64, 10**8), Keeping([])
    run(model, drafter, [TEXT], PARAMS, prefixes=store)
    engine = Engine(model, drafter, drafter_name="keeping", prefixes=store, limits=Limits(cache_bytes=10**8))
    request = engine.submit(TEXT, PARAMS)
    engine.step()
    page = store.lease(TEXT).pages[0].nbytes
    counted = engine._running._own_bytes([request])
    cache = request.sequence.cache
    drafts = sum(draft.cache.nbytes for draft in request.drafts)
    assert counted == drafts + cache.nbytes - (0 if cache.copies_pages else page)
    while engine.busy:
        engine.step()
    assert drafter.begun == [0, 127]
