"""Mistral 7B and its relatives: Llama with a window on every layer, where the configuration sets one."""

from __future__ import annotations

from outrider.errors import UnsupportedModelError
from outrider.models.config import DecoderConfig
from outrider.models.families.base import Config, Family, hf_decoder, layer_count, whole
from outrider.models.gguf_file import GGUFFile


def _from_hf(config: Config) -> DecoderConfig:
    windows: tuple[int | None, ...] = ()
    if config.get("sliding_window", 4096) is not None:
        windows = (whole(config, "sliding_window", 4096),) * layer_count(config)
    return hf_decoder("mistral", config, windows=windows, default_kv_heads=8, default_context=4096 * 32)


def _from_gguf(file: GGUFFile) -> DecoderConfig:
    # Converters write Mistral models as the architecture "llama", which the llama family answers to.
    raise UnsupportedModelError(f"{file.path}: Mistral models in GGUF files have the architecture 'llama'")


MISTRAL = Family(
    name="mistral",
    model_types=("mistral",),
    architectures=("MistralForCausalLM",),
    gguf_architectures=(),
    from_hf=_from_hf,
    from_gguf=_from_gguf,
)
