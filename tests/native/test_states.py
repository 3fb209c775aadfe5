"""What a pass offers besides logits: hidden states, and a choice of layers."""

from __future__ import annotations

import random
from functools import lru_cache

import pytest
import torch

from outrider.loop.verify.pack import Part, pack
from outrider.models.decoder import Decoder
from outrider.native.decoder import NativeDecoder
from outrider.types import DraftTree
from pass_conformance import VARIANTS, random_tree
from tiny import RandomSource, tiny_config, tiny_decoder


@lru_cache
def both(variant: str) -> tuple[Decoder, NativeDecoder]:
    config = tiny_config(layers=4, **VARIANTS[variant])
    return tiny_decoder(config), NativeDecoder(config, RandomSource(config), weights="fp32")


@pytest.mark.parametrize("layers", [None, (0, 1, 2, 3), (0, 2, 3), (3,), (2, 1), ()])
@pytest.mark.parametrize("variant", ["grouped", "window", "qk-norm and biases"])
def test_hidden_states_and_chosen_layers_are_those_of_the_pytorch_pass(
    variant: str, layers: tuple[int, ...] | None
) -> None:
    chance = random.Random(7)
    prompts = [[chance.randrange(97) for _ in range(length)] for length in (70, 3)]
    captured = [index for index in (3, 0, 2) if layers is None or index in layers]
    batch = pack([Part(len(prompt), [1], random_tree(chance, 6), True) for prompt in prompts])
    outputs = []
    for model in both(variant):
        caches = [model.new_cache() for _ in prompts]
        for prompt, cache in zip(prompts, caches, strict=True):
            model.run(pack([Part(0, prompt, DraftTree(), False)]), [cache], layers=layers)
            cache.keep(range(len(prompt)))
        outputs.append(model.run(batch, caches, layers=layers, captured=captured))
    theirs, ours = outputs
    assert ours.hidden.shape == (len(captured), len(batch), 48)
    assert (ours.logits - theirs.logits).abs().max() <= 1e-5 * theirs.logits.abs().max()
    for our, their in zip(ours.hidden, theirs.hidden, strict=True):
        assert (our - their).abs().max() <= 1e-5 * their.abs().max()


def test_capturing_changes_nothing() -> None:
    config = tiny_config(layers=3)
    model = NativeDecoder(config, RandomSource(config))
    batch, cache = pack([Part(0, range(20), DraftTree(), True)]), model.new_cache()
    plain = model.run(batch, [cache])
    output = model.run(batch, [cache], captured=[2, 0, 1])
    assert torch.equal(output.logits, plain.logits)
    assert torch.equal(model.run(batch, [cache], captured=[1]).hidden[0], output.hidden[2])
