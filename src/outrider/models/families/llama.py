"""Llama 2 and 3, SmolLM2, TinyLlama and the many models built like them."""

from __future__ import annotations

from outrider.models.config import DecoderConfig
from outrider.models.families.base import Config, Family, gguf_decoder, hf_decoder
from outrider.models.gguf_file import GGUFFile


def _from_hf(config: Config) -> DecoderConfig:
    bias = bool(config.get("attention_bias", False))
    return hf_decoder(
        "llama",
        config,
        default_context=2048,
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=bool(config.get("mlp_bias", False)),
    )


def _from_gguf(file: GGUFFile) -> DecoderConfig:
    return gguf_decoder("llama", file)


LLAMA = Family(
    name="llama",
    model_types=("llama",),
    architectures=("LlamaForCausalLM", "LLaMAForCausalLM"),
    gguf_architectures=("llama",),
    from_hf=_from_hf,
    from_gguf=_from_gguf,
    gguf_interleaved=True,
)
