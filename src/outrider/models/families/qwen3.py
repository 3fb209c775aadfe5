"""Qwen3, dense: a norm over each head's query and key, and a head size of its own."""

from __future__ import annotations

from outrider.models.config import DecoderConfig
from outrider.models.families.base import Config, Family, gguf_decoder, hf_decoder, layer_windows
from outrider.models.gguf_file import GGUFFile


def _from_hf(config: Config) -> DecoderConfig:
    bias = bool(config.get("attention_bias", False))
    return hf_decoder(
        "qwen3",
        config,
        windows=layer_windows(config, default_window=4096, default_first=28),
        default_kv_heads=32,
        default_head_dim=128,
        qkv_bias=bias,
        output_bias=bias,
        qk_norm=True,
    )


def _from_gguf(file: GGUFFile) -> DecoderConfig:
    return gguf_decoder("qwen3", file, qk_norm=True)


QWEN3 = Family(
    name="qwen3",
    model_types=("qwen3",),
    architectures=("Qwen3ForCausalLM",),
    gguf_architectures=("qwen3",),
    from_hf=_from_hf,
    from_gguf=_from_gguf,
)
