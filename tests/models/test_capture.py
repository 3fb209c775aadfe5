"""What a target shows a drafter besides logits: states after the final norm, embeddings, its head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from outrider.errors import CapabilityError, OptionError
from outrider.loop.verify.pack import Part, pack
from outrider.models.base import NORMED, capturing
from outrider.models.hf import TransformersTarget
from outrider.types import DraftTree
from tiny import RandomSource, tiny_config

CONFIG = tiny_config(layers=3)
WEIGHTS = ["fp32", "fp16", "bf16", "int8"]
TEXT = [(5 * i + i // 3) % 97 for i in range(90)]


def made(decoder_class: type, weights: str = "fp32") -> Any:
    options = {} if decoder_class.__name__ == "NativeDecoder" else {"device": torch.device("cpu")}
    return decoder_class(CONFIG, RandomSource(CONFIG), weights=weights, **options)


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool((one - other).abs().max() <= 1e-5 * other.abs().max())


@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_head_makes_the_pass_s_logits_of_the_last_states_after_the_final_norm(
    decoder_class: type, weights: str
) -> None:
    model = made(decoder_class, weights)
    batch = pack([Part(0, TEXT, DraftTree((1, 2, 3), (-1, -1, 0)), True)])
    output = model.run(batch, [model.new_cache()], captured=(1, NORMED, 2))
    assert output.hidden.shape == (3, 93, model.hidden_size) == (3, 93, 48)
    assert output.hidden.dtype == torch.float32
    norm = RandomSource(CONFIG).get("model.norm.weight")
    expected = torch.nn.functional.rms_norm(output.hidden[2], (48,), norm, CONFIG.norm_eps)
    assert close(output.hidden[1], expected)
    # int8 weights take activations in 8 bits in the PyTorch pass: a last bit may move a step of those.
    logits = model.head(output.hidden[1][list(batch.wanted)])
    assert (logits - output.logits).abs().max() <= (0.02 if weights == "int8" else 1e-4) * logits.abs().max()


@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_row_of_the_head_and_of_the_normed_states_does_not_depend_on_the_others(
    decoder_class: type, weights: str
) -> None:
    model = made(decoder_class, weights)
    states = torch.randn(70, 48, generator=torch.Generator().manual_seed(1))
    together = model.head(states)
    assert together.shape == (70, 97)
    for first, end in ((0, 1), (3, 5), (10, 43), (69, 70)):
        assert torch.equal(model.head(states[first:end]), together[first:end])
    assert model.head(states[:0]).shape == (0, 97)
    read = pack([Part(0, TEXT, DraftTree(), False)])
    normed = model.run(read, [model.new_cache()], captured=(NORMED,)).hidden[0]
    cache = model.new_cache()
    for token, expected in zip(TEXT[:20], normed, strict=False):
        one = pack([Part(cache.length, [token], DraftTree(), True)])
        assert torch.equal(model.run(one, [cache], captured=(NORMED,)).hidden[0, 0], expected)
        cache.keep([0])


@pytest.mark.parametrize("weights", WEIGHTS)
def test_embeddings_are_the_rows_of_the_file_as_the_weights_hold_them(
    decoder_class: type, weights: str
) -> None:
    model = made(decoder_class, weights)
    found = model.embed([3, 96, 0, 3])
    expected = RandomSource(CONFIG).get("model.embed_tokens.weight")[[3, 96, 0, 3]]
    kept = {"fp32": torch.float32, "bf16": torch.bfloat16}.get(weights, torch.float16)
    assert torch.equal(found, expected.to(kept).float())
    assert model.embed([]).shape == (0, 48)
    with pytest.raises((IndexError, ValueError)):
        model.embed([97])


def test_the_normed_state_is_that_of_the_last_layer_that_is_run(decoder_class: type) -> None:
    model, batch = made(decoder_class), pack([Part(0, TEXT, DraftTree(), True)])
    output = model.run(batch, [model.new_cache()], layers=(0, 2), captured=(NORMED, 0))
    assert close(model.head(output.hidden[0][-1:]), output.logits)
    for layers, captured in (((), (NORMED,)), (None, (NORMED, NORMED)), (None, (3,)), (None, (-2,))):
        with pytest.raises(OptionError, match="captured layer"):
            model.run(batch, [model.new_cache()], layers=layers, captured=captured)


def test_a_model_that_runs_through_transformers_shows_no_states(tiny_model: Callable[..., Any]) -> None:
    target = TransformersTarget(tiny_model("gpt_neox"))
    with pytest.raises(CapabilityError, match=r"'heads' learns from .* lean decoder"):
        capturing(target, (NORMED,), "heads")
