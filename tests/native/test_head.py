"""A drafting head in the core: a plain head's numbers, and rows that don't depend on their neighbours."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from outrider.loop.verify.pack import Part, pack
from outrider.models.base import Batch
from outrider.native import _core
from outrider.native.head import WEIGHTS, HeadOutput, NativeHead
from outrider.native.kv import NativeCache
from outrider.types import DraftTree
from pass_conformance import nothing
from plain_head import PlainHead, Text, plain_head, plain_outputs

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "normed residual, normed states": {"norm_before_residual": True, "feed_normed": True},
    "biases and norms": {"extras": True, "fusion_norm": True, "norm_parts": 3},
    "one norm for all features, two layers": {"fusion_norm": True, "layers": 2},
    "odd sizes": {"hidden": 41, "inner": 33, "heads": 3, "kv_heads": 1, "head_dim": 6, "features": 51},
    "smaller than a vector": {"hidden": 7, "inner": 5, "heads": 1, "kv_heads": 1, "head_dim": 2, "names": 3},
    "wider than a block of inputs": {"hidden": 200, "features": 600, "names": 97},
}
BOUNDS = {"fp32": 1e-4, "fp16": 1e-4, "bf16": 1e-4, "int8": 5e-3}
"""Largest difference from the plain head with weights rounded alike, relative to the largest number."""
ISAS = ("amx", "avx512", "avx2", "neon", "portable")


def read(
    head: NativeHead,
    text: Text,
    piece: Callable[[], int] = lambda: 100,
    before: Callable[[], None] = nothing,
) -> tuple[NativeCache, list[HeadOutput]]:
    """Read a text's tokens and features in pieces, all rows wanted."""
    cache, outputs, start = head.new_cache(), [], 0
    while start < len(text.tokens):
        rows = slice(start, start + piece())
        tokens = text.tokens[rows]
        before()
        batch = pack([Part(start, tokens, DraftTree(), False, all_pending=True)])
        outputs.append(head.run(batch, [cache], features=text.features[rows]))
        cache.keep(range(len(tokens)))
        start += len(tokens)
    return cache, outputs


def row_alone(head: NativeHead, text: Text, row: int, before: Callable[[], None]) -> HeadOutput:
    """Read the text and the row's path, one row a pass."""
    cache, _ = read(head, text, before=before)
    for at in text.path(row):
        before()
        batch = pack([Part(cache.length, [text.token(at)], DraftTree(), True)])
        output = head.run(batch, [cache], inputs=text.inputs[at : at + 1])
        cache.keep([0])
    return output


def close(ours: Tensor, theirs: Tensor, bound: float) -> bool:
    return bool((ours - theirs).abs().max() <= bound * theirs.abs().max())


@lru_cache
def plain_of(variant: str) -> PlainHead:
    return plain_head(**VARIANTS[variant])


@lru_cache
def rounded(variant: str, weights: str) -> PlainHead:
    """Return the head whose matrices hold what a format keeps of them."""

    def kept(matrix: Tensor, kind: str = weights) -> Tensor:
        out = np.empty(matrix.shape, np.float32)
        packed = _core.pack(matrix.numpy(), kind)
        for number, row in enumerate(out):
            packed.read(number, row)
        return torch.from_numpy(out)

    plain = plain_of(variant)
    layers, top = (
        [{name: kept(x) if x.dim() == 2 else x for name, x in part.items()} for part in parts]
        for parts in (plain.layers, [plain.top])
    )
    embedding = kept(plain.embedding, "fp16" if weights == "int8" else weights)
    return PlainHead(plain.shape, layers, top[0], embedding)


@lru_cache
def native(variant: str, weights: str, isa: str | None = None) -> NativeHead:
    plain = plain_of(variant)
    return NativeHead(plain.shape, plain.layers, plain.top, plain.embedding, weights=weights, isa=isa)


@pytest.fixture(scope="module")
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=ISAS)
def isa(request: pytest.FixtureRequest) -> str:
    try:
        _core.make_decoder(11, 16, 16, 2, 1, 8, 1e-5, request.param)
    except ValueError as reason:
        pytest.skip(str(reason))
    name: str = request.param
    return name


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("variant", VARIANTS)
@given(seed=st.integers(0, 10**9))
@settings(max_examples=4, deadline=None)
def test_chains_trees_and_batches_get_the_numbers_of_the_plain_head(
    variant: str, weights: str, seed: int
) -> None:
    chance, plain, head = random.Random(seed), rounded(variant, weights), native(variant, weights)
    texts = [
        Text.random(chance, plain, chance.choice([1, 2, 17, 70, 140]), chance.randint(0, 20))
        for _ in range(3)
    ]
    texts[0].tree = DraftTree.chain(texts[0].tree.tokens)
    caches, outputs = [], []
    for text in texts:
        cache, own = read(head, text, lambda: chance.choice([1, 9, 64]))
        caches.append(cache)
        outputs.append(own)
    whole = head.run(pack([text.part for text in texts]), caches, inputs=torch.cat([t.inputs for t in texts]))
    first = 0
    for text, own in zip(texts, outputs, strict=True):
        rows = slice(first, first := first + 1 + len(text.tree))
        logits = torch.cat([*(output.logits for output in own), whole.logits[rows]])
        states = torch.cat([*(output.states for output in own), whole.states[rows]])
        their_logits, their_states = plain_outputs(plain, text)
        assert close(logits, their_logits, BOUNDS[weights])
        assert close(states, their_states, BOUNDS[weights])


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("weights", WEIGHTS)
@given(variant=st.sampled_from(sorted(VARIANTS)), seed=st.integers(0, 10**9))
@settings(max_examples=8, deadline=None)
def test_a_row_of_a_head_is_the_same_in_any_company(weights: str, isa: str, variant: str, seed: int) -> None:
    chance, plain, head = random.Random(seed), plain_of(variant), native(variant, weights, isa)

    def any_threads() -> None:
        torch.set_num_threads(chance.choice([1, 1, 2, 3]))

    lengths = [1, 2, 5, 63, 64, 65, 130]
    texts = [
        Text.random(chance, plain, chance.choice(lengths), chance.randint(0, 25))
        for _ in range(chance.randint(1, 3))
    ]
    caches = []
    for text in texts:
        most = chance.choice([2, 7, 64, 1000])
        cache, outputs = read(head, text, lambda: chance.randint(1, most), any_threads)  # noqa: B023
        _, again = read(head, text, before=any_threads)
        for name in ("logits", "states"):
            pieces, whole = (torch.cat([getattr(out, name) for out in read]) for read in (outputs, again))
            assert torch.equal(pieces, whole)
        caches.append(cache)
    any_threads()
    output = head.run(
        pack([text.part for text in texts]), caches, inputs=torch.cat([t.inputs for t in texts])
    )
    assert torch.isfinite(output.logits).all()
    first = 0
    for text in texts:
        for row in chance.sample(range(1 + len(text.tree)), min(3, 1 + len(text.tree))):
            alone = row_alone(head, text, row, any_threads)
            assert torch.equal(output.logits[first + row], alone.logits[0])
            assert torch.equal(output.states[first + row], alone.states[0])
        first += 1 + len(text.tree)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("weights", ["fp16", "int8"])
def test_every_number_of_rows_gives_the_same_rows_of_a_head(weights: str, isa: str) -> None:
    """From one row to more than two tiles of any instruction set, as features and as inputs."""
    chance, head = random.Random(3), native("plain", weights, isa)
    text = Text.random(chance, plain_of("plain"), 40, 37)
    tokens = tuple(text.tree.tokens[:37])
    wide = {"features": text.features[:37], "inputs": text.inputs[:37]}
    for name, rows in wide.items():
        cache = head.new_cache()
        outputs = [
            head.run(siblings(tokens[:count]), [cache], **{name: rows[:count]}) for count in range(1, 38)
        ]
        for count, output in enumerate(outputs, 1):
            assert torch.equal(output.logits, outputs[-1].logits[:count])
            assert torch.equal(output.states, outputs[-1].states[:count])


def siblings(tokens: Sequence[int]) -> Batch:
    """Return a batch of rows that all begin an empty cache's text."""
    rows = len(tokens)
    return Batch(tuple(tokens), (0,) * rows, (0,) * rows, (-1,) * rows, tuple(range(rows)))


def test_only_rows_that_are_wanted_cost_more_than_keys_and_values() -> None:
    """A piece of a prompt that wants its last row gives what one that wants them all gives there."""
    chance, head = random.Random(4), native("one norm for all features, two layers", "fp16")
    text = Text.random(chance, plain_of("one norm for all features, two layers"), 90, 6)
    _, (whole,) = read(head, text)
    cache = head.new_cache()
    batch = pack([Part(0, text.tokens, DraftTree(), True)])
    last = head.run(batch, [cache], features=text.features)
    assert last.logits.shape == (1, 37)
    assert torch.equal(last.logits[0], whole.logits[-1])
    assert torch.equal(last.states[0], whole.states[-1])


def test_states_are_what_the_next_row_begins_with() -> None:
    """A chain that is fed its own states gives what the plain head gives for the same tokens."""
    plain, head = plain_of("normed residual, normed states"), native("normed residual, normed states", "fp32")
    text = Text.random(random.Random(5), plain, 30, 0)
    cache, (output,) = read(head, text)
    x, tokens = plain.fuse(text.features), list(text.tokens)
    logits, states = output.logits[-1:], output.states[-1:]
    for _ in range(6):
        token = int(logits.argmax())
        theirs, their_states = plain.run(x, tokens, range(len(x)), torch.ones(len(x), len(x)).tril().bool())
        assert close(logits, theirs[-1:], 1e-4)
        x, tokens = torch.cat([x, their_states[-1:]]), [*tokens, token]
        output = head.run(pack([Part(cache.length, [token], DraftTree(), True)]), [cache], inputs=states)
        cache.keep([0])
        logits, states = output.logits, output.states
