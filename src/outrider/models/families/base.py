"""What a model family is, and the reading of configuration values that all of them share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from outrider.errors import LoadError, UnsupportedModelError
from outrider.models.config import DecoderConfig, RopeConfig
from outrider.models.gguf_file import GGUFFile
from outrider.models.rope import divide, positive, rope_config
from outrider.models.source import GGUFSource

Config = Mapping[str, Any]

# Damaged files hold numbers that no machine could follow; these bounds are far above any real model.
_MOST = 1 << 30
_MOST_LAYERS, _MOST_HEAD_DIM = 1 << 12, 1 << 14


@dataclass(frozen=True, slots=True)
class Family:
    """One architecture that the lean decoder runs.

    `model_types` are the values of `model_type` in Hugging Face configurations, `architectures` those in the
    key of that name, and `gguf_architectures` those of `general.architecture` in GGUF files. `from_hf` and
    `from_gguf` translate a configuration; both raise UnsupportedModelError for a variant that the decoder
    cannot run exactly, and LoadError for values that make no sense. `gguf_interleaved` says that GGUF
    converters reorder this family's query and key rows.
    """

    name: str
    model_types: tuple[str, ...]
    architectures: tuple[str, ...]
    gguf_architectures: tuple[str, ...]
    from_hf: Callable[[Config], DecoderConfig]
    from_gguf: Callable[[GGUFFile], DecoderConfig]
    gguf_interleaved: bool = False

    def gguf_source(self, file: GGUFFile, config: DecoderConfig) -> GGUFSource:
        """Return the tensors of one of this family's GGUF files, its rows in the decoder's own order."""
        if self.gguf_interleaved:
            return GGUFSource(file, heads=config.heads, kv_heads=config.kv_heads)
        return GGUFSource(file)


def hf_decoder(
    family: str,
    config: Config,
    *,
    windows: tuple[int | None, ...] = (),
    default_kv_heads: int | None = None,
    default_head_dim: int | None = None,
    default_context: int = 32768,
    **flags: bool,
) -> DecoderConfig:
    """Return the decoder of a Hugging Face configuration; the defaults stand for keys that it leaves out.

    `flags` are the biases and norms of `DecoderConfig`, which every family derives in its own way.
    """
    if config.get("quantization_config") is not None:
        raise UnsupportedModelError(
            "these weights are quantised (quantization_config); use the original checkpoint, or a GGUF file"
        )
    if (act := config.get("hidden_act", "silu")) not in ("silu", "swish"):
        raise UnsupportedModelError(
            f"a {family} model with hidden_act {act!r} is not supported, only 'silu' is"
        )
    hidden, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    # A key that says null means "as many as there are heads"; a key left out means the family's default.
    kv_heads = heads if config.get("num_key_value_heads", 0) is None else default_kv_heads or heads
    if config.get("num_key_value_heads") is not None:
        kv_heads = whole(config, "num_key_value_heads")
    head_dim = whole(config, "head_dim", default_head_dim or max(hidden // heads, 1), _MOST_HEAD_DIM)
    context = whole(config, "max_position_embeddings", default_context)
    return checked(
        DecoderConfig(
            family=family,
            vocab_size=whole(config, "vocab_size"),
            hidden_size=hidden,
            intermediate_size=whole(config, "intermediate_size"),
            layers=layer_count(config),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            norm_eps=positive(config, "rms_norm_eps", 1e-6),
            rope=rope_config(_rope_parameters(config), head_dim, context),
            context_limit=context,
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            windows=windows,
            **flags,
        )
    )


def gguf_decoder(family: str, file: GGUFFile, *, qk_norm: bool = False) -> DecoderConfig:
    """Return the decoder of a GGUF file; biases and tied embeddings are read from which tensors it has."""
    arch = file.metadata.get("general.architecture")
    prefix = f"{arch}."
    values = {
        key.removeprefix(prefix): value for key, value in file.metadata.items() if key.startswith(prefix)
    }
    if values.get("expert_count"):
        raise UnsupportedModelError(f"{file.path} is a mixture of experts, which the decoder does not run")
    for key in ("attention.scale", "attn_logit_softcapping", "final_logit_softcapping", "logit_scale"):
        if values.get(key):
            raise UnsupportedModelError(f"{file.path} sets {prefix}{key}, which the decoder does not apply")
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise LoadError(f"{file.path} has no token_embd.weight; is it a language model?")
    hidden, heads = whole(values, "embedding_length"), whole(values, "attention.head_count")
    layers = layer_count(values, "block_count")
    head_dim = whole(values, "attention.key_length", max(hidden // heads, 1), _MOST_HEAD_DIM)
    if values.get("attention.value_length", head_dim) != head_dim:
        raise UnsupportedModelError(f"{file.path} has keys and values of different sizes")
    if values.get("rope.dimension_count", head_dim) != head_dim:
        raise UnsupportedModelError(f"{file.path} rotates only a part of each head")
    context = whole(values, "context_length")
    window = values.get("attention.sliding_window") or None
    return checked(
        DecoderConfig(
            family=family,
            vocab_size=embedding.shape[0],
            hidden_size=hidden,
            intermediate_size=whole(values, "feed_forward_length"),
            layers=layers,
            heads=heads,
            kv_heads=whole(values, "attention.head_count_kv", heads),
            head_dim=head_dim,
            norm_eps=positive(values, "attention.layer_norm_rms_epsilon"),
            rope=_gguf_rope(file, values, head_dim, context),
            context_limit=context,
            tied_embeddings="output.weight" not in file.tensors,
            qkv_bias="blk.0.attn_q.bias" in file.tensors,
            output_bias="blk.0.attn_output.bias" in file.tensors,
            mlp_bias="blk.0.ffn_up.bias" in file.tensors,
            qk_norm=qk_norm,
            windows=() if window is None else (whole(values, "attention.sliding_window"),) * layers,
        )
    )


def whole(values: Config, key: str, default: int | None = None, most: int = _MOST) -> int:
    """Return a whole number from 1 to `most`, LoadError otherwise; None counts as absent."""
    value = positive(values, key, default)
    if value > most:
        raise LoadError(f"the configuration's {key} must be at most {most}, not {value!r}")
    if isinstance(value, float) and not value.is_integer():
        raise LoadError(f"the configuration's {key} must be a whole number, not {value!r}")
    return int(value)


def layer_count(config: Config, key: str = "num_hidden_layers") -> int:
    """Return the number of layers."""
    return whole(config, key, most=_MOST_LAYERS)


def layer_windows(config: Config, default_window: int, default_first: int) -> tuple[int | None, ...]:
    """Return the window of each layer as Qwen configurations say it.

    Where `use_sliding_window` is set, the layers that `layer_types` names, or those from `max_window_layers`
    on, see `sliding_window` positions.
    """
    layers = layer_count(config)
    types = config.get("layer_types")
    known = ("full_attention", "sliding_attention")
    listed = types is None or (isinstance(types, list | tuple) and len(types) == layers)
    if not listed or any(kind not in known for kind in types or ()):
        raise UnsupportedModelError(
            f"layer_types must name full_attention or sliding_attention for each of {layers} layers, "
            f"not {types}"
        )
    if not config.get("use_sliding_window", False) or config.get("sliding_window", default_window) is None:
        if types and "sliding_attention" in types:
            raise LoadError(
                "layer_types asks for sliding_attention, but use_sliding_window or sliding_window is unset"
            )
        return ()
    window = whole(config, "sliding_window", default_window)
    first = config.get("max_window_layers", default_first)
    if not isinstance(first, int | float):
        raise LoadError(f"the configuration's max_window_layers must be a number, not {first!r}")
    if types is None:
        types = ["sliding_attention" if layer >= first else "full_attention" for layer in range(layers)]
    windows = tuple(window if kind == "sliding_attention" else None for kind in types)
    return windows if any(windows) else ()


def checked(config: DecoderConfig) -> DecoderConfig:
    """Return the configuration if its numbers fit together, LoadError otherwise."""
    if config.heads % config.kv_heads:
        raise LoadError(f"{config.heads} heads cannot share {config.kv_heads} key/value heads evenly")
    if not all(math.isfinite(value) for value in (*config.rope.inv_freq, config.rope.scale)):
        raise LoadError("the configuration's rotary parameters give frequencies that are not finite")
    return config


def _rope_parameters(config: Config) -> dict[str, Any]:
    """Return the rotary parameters, in the form that `rope_parameters` has or in the older ones."""
    parameters = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(parameters, Mapping):
        raise LoadError(f"the configuration's rotary parameters must be a table, not {parameters!r}")
    if parameters and all(isinstance(value, Mapping) for value in parameters.values()):
        variants = [dict(value) for value in parameters.values()]
        if any(variant != variants[0] for variant in variants):
            raise UnsupportedModelError("rotary parameters that differ between layer types are not supported")
        parameters = variants[0]
    merged = {key: value for key, value in parameters.items() if value is not None}
    merged.setdefault("rope_theta", config.get("rope_theta") or 10000.0)
    if config.get("partial_rotary_factor") is not None:
        merged.setdefault("partial_rotary_factor", config["partial_rotary_factor"])
    if config.get("original_max_position_embeddings") is not None:
        merged["original_max_position_embeddings"] = config["original_max_position_embeddings"]
    return merged


def _gguf_rope(file: GGUFFile, values: Config, head_dim: int, context: int) -> RopeConfig:
    kind = values.get("rope.scaling.type")
    factor = values.get("rope.scaling.factor") or values.get("rope.scale_linear")
    if kind is None:
        kind = "linear" if factor else "none"
    parameters: dict[str, Any] = {"rope_theta": values.get("rope.freq_base", 10000.0), "rope_type": kind}
    if kind == "none":
        parameters["rope_type"] = "default"
    if factor:
        parameters["factor"] = factor
    if kind == "yarn":
        for key in ("attn_factor", "yarn_attn_factor", "yarn_ext_factor"):
            if values.get(f"rope.scaling.{key}", 1.0) != 1.0:
                raise UnsupportedModelError(f"{file.path} sets rope.scaling.{key}, which is not supported")
        if values.get("rope.scaling.yarn_log_multiplier"):
            raise UnsupportedModelError(
                f"{file.path} sets rope.scaling.yarn_log_multiplier, which is not supported"
            )
        parameters["original_max_position_embeddings"] = values.get("rope.scaling.original_context_length")
        parameters["beta_fast"] = values.get("rope.scaling.yarn_beta_fast")
        parameters["beta_slow"] = values.get("rope.scaling.yarn_beta_slow")
    rope = rope_config(parameters, head_dim, context)
    if "rope_freqs.weight" in file.tensors:
        rope = divide(rope, file.tensor("rope_freqs.weight").flatten().tolist())
    return rope
