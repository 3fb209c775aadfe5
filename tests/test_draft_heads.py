"""A head that is made ready to draft: in which format its weights are packed.

Once "auto" packed 16 bits beside every target, where a draft's passes take twice as long as with 8.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.draft_heads import head_passes
from outrider.models.source import TensorSource
from outrider.native import why_missing
from tiny import RandomSource
from tiny_blocks import block_config, block_source, write_blocks
from tiny_heads import eagle3_config, eagle3_head, layer_config

pytestmark = pytest.mark.skipif(why_missing() is not None, reason="the native core was not built")


@pytest.mark.parametrize(
    ("of_target", "asked", "packed"),
    [
        ("file", "auto", "int8"),
        ("file", "file", "int8"),
        ("fp16", "auto", "fp16"),
        ("file", "fp32", "fp32"),
        ("file", "fp16", "fp16"),
        ("fp32", "bf16", "bf16"),
    ],
)
def test_a_head_has_8_bits_beside_quantised_blocks_unless_its_format_is_named(
    of_target: str, asked: str, packed: str, tmp_path: Path
) -> None:
    from outrider.native.decoder import NativeDecoder
    from outrider.native.head import NativeHead

    config = block_config("Q4_0", layers=8)
    source: TensorSource = RandomSource(config)
    if of_target == "file":
        path = write_blocks(tmp_path / "blocks.gguf", config, lambda name: "Q4_0")
        source = block_source(path, config)
    target = NativeDecoder(config, source, weights=of_target)
    layer = layer_config(hidden_size=config.hidden_size)
    head = eagle3_head(
        eagle3_config(layer=layer, target_hidden_size=config.hidden_size, vocab_size=config.vocab_size)
    )
    passes = head_passes(head, target, weights=asked)
    assert isinstance(passes, NativeHead)
    assert passes.weights == packed
