"""A row is the same, bit for bit, whatever shares its pass, with any number of threads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.loop.verify.pack import Part, pack
from outrider.native import _core
from outrider.native.decoder import NativeDecoder
from outrider.types import DraftTree
from pass_conformance import VARIANTS, check_rows, logits_alone, random_tree, read
from tiny import RandomSource, tiny_config
from tiny_blocks import KINDS, block_config, block_source, write_blocks

ISAS = ("amx", "avx512", "avx2", "neon", "portable")
PLAIN = (("fp32", "auto"), ("fp16", "auto"), ("bf16", "auto"), ("int8", "int16"), ("int8", "int8"))
"""Formats of weights with the activations that they take."""
SHAPES = {
    **VARIANTS,
    "odd sizes": {"hidden": 40, "inner": 72, "heads": 5, "kv_heads": 1, "head_dim": 20},
    "smaller than a vector": {"hidden": 12, "inner": 20, "heads": 2, "kv_heads": 1, "head_dim": 2},
    "wide heads, narrow window": {"heads": 2, "kv_heads": 2, "head_dim": 128, "window": 1},
    "every bias": {"bias": True, "inner": 33, "head_dim": 8, "window": 70},
}
LENGTHS = [1, 5, 17, 63, 64, 65, 130, 200]


@lru_cache
def decoder(shape: str, weights: str, isa: str, activations: str = "auto") -> NativeDecoder:
    config = tiny_config(**SHAPES[shape])
    if shape == "every bias":
        config = replace(config, output_bias=True, mlp_bias=True)
    return NativeDecoder(config, RandomSource(config), weights=weights, activations=activations, isa=isa)


@lru_cache
def block_decoder(kind: str, activations: str, isa: str, directory: Path) -> NativeDecoder:
    config = block_config(kind, window=13)
    path = write_blocks(directory / f"{kind}.gguf", config, lambda _: kind)
    source = block_source(path, config)
    return NativeDecoder(config, source, weights="file", activations=activations, isa=isa)


@pytest.fixture(scope="module")
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def any_threads(chance: random.Random) -> None:
    torch.set_num_threads(chance.choice([1, 1, 1, 2, 3, 8]))


@pytest.fixture(scope="module", params=ISAS)
def isa(request: pytest.FixtureRequest) -> str:
    try:
        _core.make_decoder(11, 16, 16, 2, 1, 8, 1e-5, request.param)
    except ValueError as reason:
        pytest.skip(str(reason))
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blocks")


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("weights", "activations"), PLAIN)
@given(shape=st.sampled_from(sorted(SHAPES)), seed=st.integers(0, 10**9))
@settings(max_examples=12, deadline=None)
def test_a_row_of_float_weights_is_the_same_in_any_company(
    weights: str, activations: str, isa: str, shape: str, seed: int
) -> None:
    chance = random.Random(seed)
    check_rows(decoder(shape, weights, isa, activations), chance, LENGTHS, lambda: any_threads(chance))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("activations", ["int16", "int8"])
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**9))
@settings(max_examples=3, deadline=None)
def test_a_row_of_block_weights_is_the_same_in_any_company(
    kind: str, activations: str, isa: str, directory: Path, seed: int
) -> None:
    chance = random.Random(seed)
    check_rows(
        block_decoder(kind, activations, isa, directory), chance, LENGTHS[:6], lambda: any_threads(chance)
    )


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("weights", "activations"), [("fp16", "auto"), ("int8", "int16"), ("int8", "int8")])
def test_every_number_of_rows_gives_the_same_rows(weights: str, activations: str, isa: str) -> None:
    """From one row to more than two tiles of any instruction set, as siblings and as a chain."""
    model, chance = decoder("grouped", weights, isa, activations), random.Random(1)
    cache = model.new_cache()
    read(model, cache, range(1, 30), lambda: 8, lambda: None)
    tokens = tuple(chance.randrange(97) for _ in range(37))
    for parents in ((-1,) * 37, tuple(range(-1, 36))):
        whole = model.forward(pack([Part(29, [3], DraftTree(tokens, parents), True)]), [cache])
        for count in range(37):
            any_threads(chance)
            tree = DraftTree(tokens[:count], parents[:count])
            part = model.forward(pack([Part(29, [3], tree, True)]), [cache])
            assert torch.equal(part, whole[: count + 1])


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("weights", ["fp32", "int8"])
def test_keys_and_values_are_the_same_however_a_text_is_read(weights: str, isa: str) -> None:
    model, chance = decoder("window", weights, isa), random.Random(2)
    text = [chance.randrange(97) for _ in range(140)]
    kept = []
    for piece in (1, 9, 64, 100, 140):
        any_threads(chance)
        cache = model.new_cache()
        read(model, cache, text, lambda: piece, lambda: None)  # noqa: B023
        kept.append(stored(cache, model.config.layers, model.config.kv_heads, model.config.head_dim))
    assert all(torch.equal(kept[0], other) for other in kept[1:])


def stored(cache, layers: int, heads: int, dim: int) -> torch.Tensor:  # type: ignore[no-untyped-def]
    """Return every key and value, [layers, heads, slots, 2, dim]."""
    out = torch.empty(layers, heads, cache.length, 2, dim)
    for layer in range(layers):
        for head in range(heads):
            for slot in range(cache.length):
                key, value = out[layer, head, slot]
                cache.core.read(layer, head, slot, key.numpy(), value.numpy())
    return out


def test_after_every_step_the_cache_holds_what_a_fresh_read_of_the_text_gives() -> None:
    model, chance = decoder("grouped", "fp32", None), random.Random(5)  # type: ignore[arg-type]
    for _ in range(20):
        prompt = [chance.randrange(97) for _ in range(chance.choice([1, 30, 62, 64]))]
        cache = model.new_cache()
        read(model, cache, prompt, lambda: 100, lambda: None)
        tree = random_tree(chance, 12)
        model.forward(pack([Part(len(prompt), [9], tree, True)]), [cache])
        node, path = chance.randrange(12), []
        while node >= 0:
            path.append(node)
            node = tree.parents[node]
        cache.keep([0, *(1 + node for node in reversed(path))])
        text = [*prompt, 9, *(tree.tokens[node] for node in reversed(path))]
        fresh = model.new_cache()
        read(model, fresh, text, lambda: 100, lambda: None)
        assert cache.length == fresh.length == len(text)
        assert torch.equal(stored(cache, 2, 2, 16), stored(fresh, 2, 2, 16))
        cache.truncate(len(prompt))
        again = model.forward(pack([Part(len(prompt), [9], DraftTree(), True)]), [cache])[0]
        assert torch.equal(again, logits_alone(model, [*prompt, 9]))
