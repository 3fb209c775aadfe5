"""The native pass against the PyTorch pass: the same logits, within what rounding explains."""

from __future__ import annotations

import random
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.loop.verify.pack import Part, pack
from outrider.models.config import DecoderConfig
from outrider.models.decoder import Decoder
from outrider.native.decoder import NativeDecoder
from outrider.types import DraftTree
from pass_conformance import VARIANTS, random_tree
from tiny import RandomSource, tiny_config, tiny_decoder

pytestmark = pytest.mark.usefixtures("two_threads")

BOUNDS = {"fp32": 1e-5, "fp16": 1e-3, "bf16": 1e-3}
"""Largest difference from the PyTorch pass with the same weights, relative to the largest logit."""


@lru_cache
def both(variant: str, weights: str) -> tuple[Decoder, NativeDecoder]:
    config: DecoderConfig = tiny_config(**VARIANTS[variant])
    native = NativeDecoder(config, RandomSource(config), weights=weights)
    return tiny_decoder(config, weights), native


@pytest.mark.parametrize("weights", BOUNDS)
@pytest.mark.parametrize("variant", VARIANTS)
@given(seed=st.integers(0, 10**6), context=st.sampled_from([0, 1, 15, 64, 130, 700]))
@settings(max_examples=6, deadline=None)
def test_ragged_trees_get_the_logits_of_the_pytorch_pass(
    variant: str, weights: str, seed: int, context: int
) -> None:
    chance = random.Random(seed)
    reference, native = both(variant, weights)
    prompts = [[chance.randrange(97) for _ in range(context + chance.randint(0, 9))] for _ in range(3)]
    trees = [random_tree(chance, chance.randint(0, 12)) for _ in prompts]
    logits = []
    for decoder in (reference, native):
        caches = [decoder.new_cache() for _ in prompts]
        for prompt, cache in zip(prompts, caches, strict=True):
            if prompt:
                decoder.forward(pack([Part(0, prompt, DraftTree(), False)]), [cache])
                cache.keep(range(len(prompt)))
        parts = [
            Part(len(prompt), [seed % 97], tree, True) for prompt, tree in zip(prompts, trees, strict=True)
        ]
        logits.append(decoder.forward(pack(parts), caches))
    error = (logits[0] - logits[1]).abs().max() / logits[0].abs().max()
    assert error < BOUNDS[weights]
