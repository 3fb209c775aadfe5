"""Qwen2 and Qwen2.5: biases on queries, keys and values."""

from __future__ import annotations

from outrider.models.config import DecoderConfig
from outrider.models.families.base import Config, Family, gguf_decoder, hf_decoder, layer_windows
from outrider.models.gguf_file import GGUFFile


def _from_hf(config: Config) -> DecoderConfig:
    windows = layer_windows(config, default_window=4096, default_first=28)
    return hf_decoder("qwen2", config, windows=windows, default_kv_heads=32, qkv_bias=True)


def _from_gguf(file: GGUFFile) -> DecoderConfig:
    return gguf_decoder("qwen2", file)


QWEN2 = Family(
    name="qwen2",
    model_types=("qwen2",),
    architectures=("Qwen2ForCausalLM",),
    gguf_architectures=("qwen2",),
    from_hf=_from_hf,
    from_gguf=_from_gguf,
)
