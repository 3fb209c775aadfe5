"""Sizes, matrices and layers that cannot be: each refused with a word about what would be right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from outrider.errors import LoadError, UnknownNameError
from outrider.loop.verify.pack import Part, pack
from outrider.native import _core
from outrider.native.decoder import NativeDecoder
from outrider.types import DraftTree
from tiny import RandomSource, tiny_config


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (-1, 1, 1), (2**30, 2**30, 2**30)])
def test_a_cache_of_no_size_or_of_too_much_is_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="a cache "):
        _core.Cache(*sizes)


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"vocab": 0}, "positive"),
        ({"hidden": -1}, "positive"),
        ({"inner": 0}, "positive"),
        ({"kv_heads": 0}, "positive"),
        ({"heads": 3}, "multiple of kv_heads"),
        ({"dim": 15}, "even"),
        ({"heads": 2**16, "dim": 2**17}, "over 67108864"),
        ({"vocab": 2**31 - 1}, "over 67108864"),
        ({"isa": "sse9"}, "no instruction set 'sse9'"),
    ],
)
def test_a_model_of_impossible_sizes_is_refused(sizes: dict[str, Any], says: str) -> None:
    sound = {"vocab": 97, "hidden": 48, "inner": 80, "heads": 6, "kv_heads": 2, "dim": 16, "eps": 1e-5}
    with pytest.raises(ValueError, match=says):
        _core.make_decoder(**{**sound, **sizes})


def matrix(outputs: int, inputs: int) -> _core.Matrix:
    return _core.pack(np.ones((outputs, inputs), np.float32), "fp32")


PARTS = {
    "q": (32, 24),
    "k": (16, 24),
    "v": (16, 24),
    "o": (24, 32),
    "gate": (40, 24),
    "up": (40, 24),
    "down": (24, 40),
}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        *(({name: (size[0] + 1, size[1])}, f"{name} is {size[0] + 1} x {size[1]}, the model calls for "
           f"{size[0]} x {size[1]}") for name, size in PARTS.items()),
        *(({name: None}, f"{name} is missing") for name in PARTS),
        ({"q": np.ones((32, 24), np.float32)}, "q must be a Matrix"),
        ({"input_norm": np.ones(25, np.float32)}, "input_norm has 25 values, the model calls for 24"),
        ({"mlp_norm": None}, "mlp_norm has 0 values"),
        ({"q_norm": np.ones(4, np.float32)}, "q_norm has 4 values, the model calls for 8"),
        ({"v_bias": np.ones(24, np.float32)}, "v_bias has 24 values, the model calls for 16"),
        ({"k_bias": "none"}, "k_bias must be an array of float32"),
        ({"q_nrom": np.ones(8, np.float32)}, "a layer has no part 'q_nrom'"),
    ],
)  # fmt: skip
def test_a_part_of_the_wrong_shape_is_named_with_the_right_one(wrong: dict[str, Any], says: str) -> None:
    core = _core.make_decoder(11, 24, 40, 4, 2, 8, 1e-5)
    parts: dict[str, Any] = {name: matrix(*size) for name, size in PARTS.items()}
    parts |= {"input_norm": np.ones(24, np.float32), "mlp_norm": np.ones(24, np.float32)}
    wrong = {name: matrix(*part) if isinstance(part, tuple) else part for name, part in wrong.items()}
    with pytest.raises(ValueError, match=says):
        core.add_layer({**parts, **wrong})
    with pytest.raises(ValueError, match="window cannot be negative"):
        core.add_layer(parts, -1)
    for top in ((matrix(12, 24), 24, matrix(11, 24)), (matrix(11, 24), 23, matrix(11, 24))):
        with pytest.raises(ValueError, match=r"embedding is 12 x 24|norm has 23 values"):
            core.set_top(top[0], np.ones(top[1], np.float32), top[2])
    with pytest.raises(ValueError, match=r"cos and sin must be \[positions, dim / 2\]"):
        core.set_rotation(np.ones((5, 8), np.float32), np.ones((5, 8), np.float32))
    with pytest.raises(ValueError, match="lacks layers, its top or its rotation"):
        core.run([0], [0], [0], [-1], [0], [_core.Cache(1, 2, 8)], 1, np.zeros(11, np.float32))


def test_weights_that_do_not_fit_their_format_are_refused() -> None:
    some = np.zeros((16, 32), np.float32)
    with pytest.raises(ValueError, match="unknown weight format 'fp8'"):
        _core.pack(some, "fp8")
    with pytest.raises(ValueError, match="packed as fp32, fp16, bf16 or int8"):
        _core.pack(some, "q4_0")
    with pytest.raises(ValueError, match="cannot be empty"):
        _core.pack(some[:0], "fp32")
    raw = np.zeros(16 * 18, np.uint8)
    with pytest.raises(ValueError, match="q4_0 weights of 16 x 32 take 288 bytes, not 287"):
        _core.pack_blocks(raw[:-1], 16, 32, "q4_0")
    with pytest.raises(ValueError, match="q4_0 weights need a multiple of 32 inputs, not 33"):
        _core.pack_blocks(raw, 16, 33, "q4_0")
    for outputs, inputs in ((0, 32), (-16, 32), (16, 0), (16, -32)):
        with pytest.raises(ValueError, match="q4_0 weights"):
            _core.pack_blocks(raw, outputs, inputs, "q4_0")
    with pytest.raises(ValueError, match="not a block format"):
        _core.pack_blocks(raw, 16, 32, "fp16")
    for order in ([0] * 15, [0] * 15 + [16], [-1] + [0] * 15):
        with pytest.raises(ValueError, match="order "):
            _core.pack_blocks(raw, 16, 32, "q4_0", np.array(order, np.int32))
    packed = _core.pack_blocks(raw, 16, 32, "q4_0")
    for output, room in ((16, 32), (-1, 32), (0, 31)):
        with pytest.raises(ValueError, match="no such output, or out is not"):
            packed.read(output, np.zeros(room, np.float32))


def test_values_beyond_fp16_are_noticed_at_load() -> None:
    config = tiny_config()
    source = RandomSource(config)
    source.scale("model.layers.1.mlp.down_proj.weight", 1e6)
    with pytest.raises(LoadError, match=r"layers.1.mlp.down_proj.*fp32"):
        NativeDecoder(config, source, weights="fp16")
    assert any("layers.1.mlp.down_proj" in notice for notice in NativeDecoder(config, source).notices)
    with pytest.raises(UnknownNameError, match="did you mean 'fp16'"):
        NativeDecoder(config, source, weights="fp61")


@pytest.mark.parametrize("weights", ["fp32", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_weight_that_is_no_number_shows_in_the_logits(weights: str, value: float) -> None:
    """Rounding to int8 once made a zero of it, and a damaged file gave fluent nonsense."""
    config = tiny_config()
    source = RandomSource(config)
    source._tensors["model.layers.0.mlp.up_proj.weight"][3, 5] = value
    if weights == "fp16" and value == float("inf"):
        with pytest.raises(LoadError, match="fp16 cannot hold"):
            NativeDecoder(config, source, weights=weights)
        return
    model = NativeDecoder(config, source, weights=weights)
    logits = model.forward(pack([Part(0, [1, 2, 3], DraftTree(), True)]), [model.new_cache()])
    assert not torch.isfinite(logits).any()
