"""Tiny GGUF files whose matrices are random blocks of any quantised type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
from gguf import GGUFWriter

from outrider.models.config import DecoderConfig
from outrider.models.gguf_file import GGUFFile
from outrider.models.names import expected_shapes
from outrider.models.source import GGUFSource
from tiny import tiny_config

KINDS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
HALVES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q4_K": (0, 2)}
HALVES |= {"Q5_K": (0, 2), "Q6_K": (208,)}
"""Where a block of each type holds its scale and, where it has one, its minimum or offset, in fp16."""
MIDDLE = {"Q4_0": 8, "Q4_1": 7.5, "Q5_0": 16, "Q5_1": 15.5, "Q8_0": 128, "Q4_K": 15 * 32, "Q5_K": 31 * 32}
MIDDLE |= {"Q6_K": 64 * 32}
"""About the largest size of the integers of a block, scales of sub-blocks worked in, around their mean."""


def random_blocks(
    kind: str, shape: tuple[int, int], chance: np.random.Generator, size: float = 0.3
) -> np.ndarray:
    """Return the bytes of a matrix, [outputs, bytes]: every pattern of integers, values of about `size`.

    Types that are not in `KINDS` get zeros.
    """
    inputs, nbytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    if kind not in KINDS:
        return np.zeros((shape[0], shape[1] // inputs * nbytes), np.uint8)
    blocks = chance.integers(0, 256, (shape[0], shape[1] // inputs, nbytes), np.uint8)
    scale = size / MIDDLE[kind] * chance.uniform(0.5, 1.5, (*blocks.shape[:2], 2))
    scale[..., 1] = scale[..., 0]
    if kind in ("Q4_1", "Q5_1"):
        scale[..., 1] *= -MIDDLE[kind]  # the offset is added
    elif kind in ("Q4_K", "Q5_K"):
        scale[..., 1] *= {"Q4_K": 7.5, "Q5_K": 15.5}[kind]  # a multiple of the minimum is taken off
    for part, at in enumerate(HALVES[kind]):
        half = scale[..., part : part + 1].astype(np.float16)
        blocks[..., at : at + 2] = np.ascontiguousarray(half).view(np.uint8)
    return blocks.reshape(shape[0], -1)


def block_config(kind: str, **options: object) -> DecoderConfig:
    """Return the smallest decoder whose matrices have inputs enough for a block, and not much else."""
    wide = 256 if kind.endswith("_K") else 64
    sizes = {"hidden": wide, "inner": wide, "heads": wide // 32, "kv_heads": 2, "head_dim": 32, "vocab": 97}
    return tiny_config(**{**sizes, **options})  # type: ignore[arg-type]


def write_blocks(path: Path, config: DecoderConfig, kind_of: Callable[[str], str], seed: int = 0) -> Path:
    """Write a llama file with a tokenizer of one letter a token; `kind_of` names each matrix's type."""
    from outrider.models.names import _GGUF_LAYER, _GGUF_TOP

    chance = np.random.default_rng(seed)
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(config.layers)
    writer.add_context_length(config.context_limit)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(
        [chr(33 + token) if token < 94 else f"<{token}>" for token in range(config.vocab_size)]
    )
    writer.add_token_types([1 if token < 94 else 3 for token in range(config.vocab_size)])
    writer.add_token_merges([])
    writer.add_eos_token_id(config.vocab_size - 1)
    theirs = {ours: name for name, ours in _GGUF_TOP.items()}
    for name, shape in expected_shapes(config).items():
        stored = theirs.get(name)
        if stored is None:
            _, _, layer, *part = name.split(".")
            kinds = {ours: short for short, ours in _GGUF_LAYER.items()}
            stored = f"blk.{layer}.{kinds['.'.join(part[:-1])]}.{part[-1]}"
        kind = "F32" if len(shape) == 1 else kind_of(name)
        if kind in ("F32", "F16"):
            values = chance.standard_normal(shape) * (0.3 if len(shape) > 1 else 1.0)
            writer.add_tensor(stored, values.astype(np.float32 if kind == "F32" else np.float16))
        else:
            raw = random_blocks(kind, (shape[0], shape[1]), chance)
            writer.add_tensor(stored, raw, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def block_source(path: Path, config: DecoderConfig) -> GGUFSource:
    """Return the tensors of such a file, query and key rows put in order."""
    return GGUFSource(GGUFFile(path), heads=config.heads, kv_heads=config.kv_heads)
