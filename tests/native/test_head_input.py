"""What does not fit a drafting head is refused with a word about what, and leaves everything as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from outrider.errors import CapabilityError, LoadError, UnknownNameError
from outrider.loop.verify.pack import Part, pack
from outrider.native import _core
from outrider.native.decoder import NativeDecoder
from outrider.native.head import HeadOutput, NativeHead
from outrider.native.kv import NativeCache
from outrider.types import DraftTree
from plain_head import PlainHead, plain_head
from tiny import RandomSource, tiny_config

GOOD = pack([Part(3, [5], DraftTree((1, 2, 3), (-1, 0, 0)), True)])
"""Four rows of a sequence with three tokens cached."""
PLAIN = plain_head()
H, F = 48, 120


@pytest.fixture(scope="module")
def head() -> NativeHead:
    return built(PLAIN)


def built(plain: PlainHead, **options: Any) -> NativeHead:
    return NativeHead(plain.shape, plain.layers, plain.top, plain.embedding, **options)


@pytest.fixture
def cache(head: NativeHead) -> NativeCache:
    cache = head.new_cache()
    head.run(pack([Part(0, range(3), DraftTree(), False)]), [cache], inputs=torch.ones(3, H))
    cache.keep(range(3))
    return cache


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "a joined layer needs inputs or features"),
        ({"inputs": torch.ones(4, H), "features": torch.ones(4, F)}, "inputs or features, not both"),
        ({"inputs": torch.ones(3, H)}, r"inputs must be \[rows, hidden\]"),
        ({"inputs": torch.ones(4, H + 1)}, r"inputs must be \[rows, hidden\]"),
        ({"inputs": torch.ones(4 * H)}, r"inputs must be \[rows, width\], not \[192\]"),
        ({"inputs": torch.ones(0, H)}, r"inputs must be \[rows, hidden\]"),
        ({"features": torch.ones(5, F)}, r"features must be \[rows, width\]"),
        ({"features": torch.ones(4, H)}, r"features must be \[rows, 120\], not \[rows, 48\]"),
        ({"features": torch.ones(4, 3, 40)}, r"features must be \[rows, width\], not \[4, 3, 40\]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_and_change_nothing(
    wrong: dict[str, torch.Tensor], says: str, head: NativeHead, cache: NativeCache
) -> None:
    inputs = torch.arange(4.0 * H).reshape(4, H)
    before = head.run(GOOD, [cache], inputs=inputs)
    with pytest.raises(ValueError, match=says):
        head.run(GOOD, [cache], **wrong)
    unchanged(head, cache, before, inputs)


def test_batches_and_caches_that_do_not_fit_a_head_are_refused_and_change_nothing(
    head: NativeHead, cache: NativeCache
) -> None:
    inputs = torch.arange(4.0 * H).reshape(4, H)
    before = head.run(GOOD, [cache], inputs=inputs)
    target = tiny_config()
    for batch, caches, says in (
        (replace(GOOD, tokens=(5, 1, 97, 3)), [cache], "token 97 of row 2 is outside the vocabulary of 97"),
        (replace(GOOD, positions=(4, 4, 5, 5)), [cache], "position 4 of row 0 should be 3"),
        (replace(GOOD, wanted=(4,)), [cache], "wanted row 4 is not in the batch"),
        (GOOD, [cache, cache], "given twice"),
        (GOOD, [NativeCache(target.layers, target.kv_heads, target.head_dim)], "cache is of another model"),
    ):
        with pytest.raises(ValueError, match=says):
            head.run(batch, caches, inputs=inputs)
    with pytest.raises(CapabilityError, match="new_cache"):
        head.run(GOOD, [object()], inputs=inputs)  # type: ignore[list-item]
    unchanged(head, cache, before, inputs)


def unchanged(head: NativeHead, cache: NativeCache, before: HeadOutput, inputs: torch.Tensor) -> None:
    assert cache.length == 3
    cache.keep([0, 1, 3])  # the rows that were pending still are
    cache.truncate(3)
    after = head.run(GOOD, [cache], inputs=inputs)
    assert torch.equal(after.logits, before.logits)
    assert torch.equal(after.states, before.states)


def test_a_head_without_a_fusion_takes_inputs_only() -> None:
    top = {name: tensor for name, tensor in PLAIN.top.items() if name != "fusion"}
    head = built(replace(PLAIN, top=top))
    assert head.features is None
    batch = pack([Part(0, [1], DraftTree(), True)])
    assert head.run(batch, [head.new_cache()], inputs=torch.ones(1, H)).logits.shape == (1, 37)
    with pytest.raises(ValueError, match="has no fusion"):
        head.run(batch, [head.new_cache()], features=torch.ones(1, F))


@pytest.mark.parametrize(
    ("layer", "top", "shape", "says"),
    [
        ({"q": torch.ones(96, H)}, {}, {}, "q is 96 x 48, the model calls for 96 x 96"),
        ({"hidden_norm": torch.ones(40)}, {}, {}, "hidden_norm has 40 values, the model calls for 48"),
        ({"hidden_norm": torch.ones(0)}, {}, {}, "q is 96 x 96, the model calls for 96 x 48"),
        ({"nonsense": torch.ones(3)}, {}, {}, "a layer has no part 'nonsense'"),
        ({"q": torch.ones(96)}, {}, {}, r"q must be a matrix \[outputs, inputs\], not \[96\]"),
        ({"mlp_norm": torch.ones(1, H)}, {}, {}, r"must be \[size\], not \[1, 48\]"),
        ({}, {"nonsense": torch.ones(3)}, {}, "not fusion, head, nonsense, norm"),
        ({}, {"head": torch.ones(36, H)}, {}, "head is 36 x 48, the model calls for 37 x 48"),
        ({}, {"head": torch.ones(97, H)}, {}, "head is 97 x 48, the model calls for 37 x 48"),
        ({}, {"fusion": torch.ones(40, F)}, {}, "fusion is 40 x 120, the model calls for 48 x 120"),
        ({}, {"fusion_bias": torch.ones(40)}, {}, "fusion bias has 40 values"),
        ({}, {"fusion_norm": torch.ones(H)}, {}, "fusion norm has 48 values, the model calls for 120"),
        ({}, {}, {"norm_parts": 7}, "features of 120 values cannot be normed in 7 parts"),
        ({}, {}, {"norm_parts": 0}, "in 0 parts"),
        ({}, {}, {"draft_vocab_size": 0}, "must be positive"),
        ({}, {}, {"vocab_size": 96}, "embedding is 97 x 48, the model calls for 96 x 48"),
    ],
)
def test_a_head_whose_parts_do_not_fit_is_refused(
    layer: dict[str, torch.Tensor], top: dict[str, torch.Tensor], shape: dict[str, int], says: str
) -> None:
    plain = PlainHead(
        replace(PLAIN.shape, **shape), [PLAIN.layers[0] | layer], PLAIN.top | top, PLAIN.embedding
    )
    with pytest.raises(ValueError, match=says):
        built(plain)


def test_a_normed_residual_needs_a_layer_with_a_norm_of_the_state() -> None:
    core = _core.make_decoder(97, H, 80, 6, 2, 16, 1e-5)
    layer = {name: x for name, x in PLAIN.layers[0].items() if name != "hidden_norm"}
    layer |= {name: torch.ones(len(layer[name]), H) for name in "qkv"}
    parts: dict[str, object] = {
        name: _core.pack(x.numpy(), "fp32") if x.dim() == 2 else x.numpy() for name, x in layer.items()
    }
    with pytest.raises(ValueError, match="normed residual is for a layer with a hidden_norm"):
        core.add_layer(parts, 0, True)


def test_weights_that_a_format_cannot_hold_are_refused() -> None:
    wide = replace(PLAIN, top=PLAIN.top | {"head": torch.full((37, H), 70000.0)})
    with pytest.raises(LoadError, match="head's head holds values that fp16 cannot hold; use bf16 or fp32"):
        built(wide)
    assert built(wide, weights="bf16").weights == "bf16"
    with pytest.raises(UnknownNameError, match="format of a head's weights 'file'"):
        built(PLAIN, weights="file")


def test_a_head_reads_the_target_s_own_embedding(head: NativeHead) -> None:
    config = tiny_config()
    target = NativeDecoder(config, RandomSource(config), weights="fp16")
    shared = built(replace(PLAIN, embedding=target.embedding))  # type: ignore[arg-type]
    own = built(replace(PLAIN, embedding=RandomSource(config).get("model.embed_tokens.weight")))
    batch, inputs = pack([Part(0, [7, 8], DraftTree(), True)]), torch.ones(2, H)
    ours, theirs = (each.run(batch, [each.new_cache()], inputs=inputs) for each in (shared, own))
    assert torch.equal(ours.logits, theirs.logits)
    assert shared.weight_bytes == own.weight_bytes


def test_results_are_written_where_the_caller_looks(head: NativeHead, cache: NativeCache) -> None:
    columns = {
        name: getattr(GOOD, name) for name in ("tokens", "positions", "sequences", "parents", "wanted")
    }
    good: dict[str, Any] = {
        **columns,
        "caches": [cache.core],
        "threads": 1,
        "logits": np.zeros((4, 37), np.float32),
        "inputs": np.ones((4, H), np.float32),
    }
    with pytest.raises(ValueError, match=r"states must be \[wanted, hidden\]"):
        head._core.run(**good, states=np.zeros((3, H), np.float32))
    with pytest.raises(TypeError, match="states"):
        head._core.run(**good, states=np.zeros((4, H)))
    head._core.run(**good)  # states need not be asked for
