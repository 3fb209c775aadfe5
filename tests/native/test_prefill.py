"""Many rows take another way through the native pass than few: the bits must be the same."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import torch
from torch import Tensor

from outrider.loop.verify.pack import Part, pack
from outrider.models.base import Batch
from outrider.native.decoder import NativeDecoder
from outrider.native.kv import NativeCache
from outrider.types import DraftTree
from tiny import RandomSource, tiny_config

WEIGHTS = ("fp32", "fp16", "bf16", "int8")
LENGTH = 600
"""Tokens of a text: several pages of the cache and several segments of attention."""
TEXT = [random.Random(0).randrange(97) for _ in range(LENGTH)]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@lru_cache
def decoder(weights: str, window: int | None = None, heads: int = 6) -> NativeDecoder:
    config = tiny_config(window=window, heads=heads)
    return NativeDecoder(config, RandomSource(config), weights=weights)


def chain(tokens: Sequence[int], start: int) -> Batch:
    rows = len(tokens)
    positions = tuple(range(start, start + rows))
    return Batch(tuple(tokens), positions, (0,) * rows, tuple(range(-1, rows - 1)), tuple(range(rows)))


def read(
    target: NativeDecoder, pieces: Sequence[int], text: Sequence[int] = TEXT
) -> tuple[Tensor, NativeCache]:
    """Return the logits of every token of the text, read in pieces of these sizes, and the cache."""
    cache, logits, start = target.new_cache(), [], 0
    for size in pieces:
        logits.append(target.forward(chain(text[start : start + size], start), [cache]))
        cache.keep(range(size))
        start += size
    assert start == len(text)
    return torch.cat(logits), cache


@lru_cache
def alone(weights: str, window: int | None = None, heads: int = 6) -> Tensor:
    """Logits of the text, one row a pass."""
    torch.set_num_threads(1)
    return read(decoder(weights, window, heads), [1] * LENGTH)[0]


def cut(seed: int, length: int = LENGTH) -> list[int]:
    chance, pieces = random.Random(seed), []
    while length:
        pieces.append(min(length, chance.choice((1, 2, 3, 7, 12, 13, 31, 64, 100, 257))))
        length -= pieces[-1]
    return pieces


@pytest.mark.parametrize("threads_", [1, 2, 3, 8])
@pytest.mark.parametrize("window", [None, 13, 300])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_prompt_gets_the_same_logits_in_pieces_of_any_size(
    weights: str, window: int | None, threads_: int
) -> None:
    target, expected = decoder(weights, window), alone(weights, window)
    torch.set_num_threads(threads_)
    for pieces in ([LENGTH], [256, 256, 88], cut(threads_), cut(threads_ + 10)):
        assert torch.equal(read(target, pieces)[0], expected), pieces


@pytest.mark.parametrize("heads", [2, 14])
def test_it_does_so_however_many_heads_share_keys(heads: int) -> None:
    for pieces in ([LENGTH], [256, 256, 88], cut(1)):
        assert torch.equal(read(decoder("fp16", None, heads), pieces)[0], alone("fp16", None, heads)), pieces


@pytest.mark.parametrize("window", [None, 40])
@pytest.mark.parametrize("context", [0, 200, 250, 512, 530])
@pytest.mark.parametrize("nodes", [7, 70])
def test_the_nodes_of_a_tree_get_the_logits_of_their_paths(
    nodes: int, context: int, window: int | None
) -> None:
    """Trees that stand across the end of a segment, beside another sequence that is read in the same pass."""
    chance, target = random.Random(nodes * context), decoder("fp16", window)
    tree = DraftTree(
        tuple(chance.randrange(97) for _ in range(nodes)),
        tuple(max(-1, node - 1 - chance.choice((0, 0, 0, 1, 5))) for node in range(nodes)),
    )
    caches = [target.new_cache(), target.new_cache()]
    if context:
        target.forward(chain(TEXT[:context], 0), caches[:1])
        caches[0].keep(range(context))
    parts = [Part(context, TEXT[context : context + 1], tree, True), Part(0, TEXT[:300], DraftTree(), True)]
    logits = target.forward(pack(parts), caches)
    for node in range(nodes):
        path, at = [], node
        while at >= 0:
            path.append(tree.tokens[at])
            at = tree.parents[at]
        text = [*TEXT[: context + 1], *reversed(path)]
        if node % 5 == 0 or node == nodes - 1:
            straight, _ = read(target, [context + 1, *[1] * len(path)], text)
            assert torch.equal(logits[1 + node], straight[-1]), node


def test_sequences_of_one_pass_get_the_logits_they_get_alone() -> None:
    target = decoder("fp16")
    lengths = [1, 40, 257, 3, 600, 12]
    caches = [target.new_cache() for _ in lengths]
    parts = [Part(0, TEXT[:length], DraftTree(), True) for length in lengths]
    logits = target.forward(pack(parts), caches)
    for row, length in zip(logits, lengths, strict=True):
        assert torch.equal(row, alone("fp16")[length - 1]), length


@pytest.mark.parametrize("weights", ["fp16", "int8"])
def test_which_rows_are_wanted_changes_nothing_but_what_is_returned(weights: str) -> None:
    """After the last layer's keys and values only wanted rows go on, wherever they stand in the batch."""
    target, every = decoder(weights), chain(TEXT, 0)
    last = target.config.layers - 1
    states = target.run(every, [target.new_cache()], captured=(last,)).hidden
    following = read(target, [LENGTH, 1], [*TEXT, 5])[0][-1]
    for count in (0, 1, 2, 20, 40, 200, LENGTH - 1):
        chance = random.Random(count)
        wanted = chance.sample(range(LENGTH), count) + chance.choices(range(LENGTH), k=min(count, 3))
        batch, cache = replace(every, wanted=tuple(wanted)), target.new_cache()
        assert torch.equal(target.forward(batch, [cache]), alone(weights)[wanted]), count
        cache.keep(range(LENGTH))
        assert torch.equal(target.forward(chain([5], LENGTH), [cache])[0], following), count
        result = target.run(batch, [target.new_cache()], captured=(last,))
        assert torch.equal(result.logits, alone(weights)[wanted]), count
        assert torch.equal(result.hidden, states), count


@pytest.mark.parametrize("nodes", [5, 40])
def test_it_does_so_for_trees_beside_prompts(nodes: int) -> None:
    chance, target = random.Random(nodes), decoder("fp16")
    tree = DraftTree(tuple(range(nodes)), tuple(chance.randrange(-1, node) for node in range(nodes)))
    caches = [target.new_cache() for _ in range(3)]
    parts = [
        Part(0, TEXT[:90], DraftTree(), True),
        Part(0, TEXT[:3], tree, True),
        Part(0, TEXT[:300], tree, True),
    ]
    batch = pack(parts)
    every = target.forward(replace(batch, wanted=tuple(range(len(batch)))), caches)
    for count in (1, 4, len(batch) // 2):
        wanted = chance.sample(range(len(batch)), count)
        assert torch.equal(target.forward(replace(batch, wanted=tuple(wanted)), caches), every[wanted])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_passes_with_threads_of_its_own() -> None:
    """The threads of a pass don't survive a fork; what they slept on can't be destroyed without them."""
    target = decoder("fp16")
    expected = alone("fp16").numpy()

    def right() -> bool:  # without torch's own threads, which don't survive either
        logits = target.forward(chain(TEXT, 0), [target.new_cache()])
        return np.array_equal(logits.numpy(), expected)

    assert right()
    time.sleep(0.01)  # the threads fall asleep
    child = os.fork()
    if child == 0:  # no pytest, no handlers: only the answer
        signal.alarm(20)
        os._exit(0 if right() else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert right()
