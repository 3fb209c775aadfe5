"""The values of a head's config.json, each checked when it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from outrider.errors import HeadError, UnsupportedModelError
from outrider.heads.layer import LayerConfig

# Far above any real model: what damaged files say must not be tried.
_MOST, _MOST_HEAD_DIM = 1 << 24, 1 << 14


class Settings:
    """Values by key; HeadError names the file and the key where one is missing or makes no sense.

    A key that says null counts as absent.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values, self.where = values, where

    def has(self, key: str) -> bool:
        """Tell whether a key is there and not null."""
        return self._values.get(key) is not None

    def whole(self, key: str, default: int | None = None, most: int = _MOST) -> int:
        """Return a whole number from 1 to `most`."""
        value = self._value(key, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self.wrong(key, f"a whole number from 1 to {most}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a finite number above zero."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, "a number above zero")
        if not math.isfinite(value) or value <= 0:
            raise self.wrong(key, "a number above zero")
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return true or false."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, "a text")
        return value

    def layers(self, key: str) -> tuple[int, ...] | None:
        """Return a list of layer indices, None where there is none."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not value or not all(type(index) is int for index in value):
            raise self.wrong(key, "a list of layer indices")
        return tuple(value)

    def table(self, key: str) -> Settings:
        """Return a table within this one, an empty one where there is none."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, "a table")
        return Settings(value or {}, f"{self.where}: {key}")

    def plain(self, key: str) -> dict[str, Any]:
        """Return a table as it is, an empty one where there is none."""
        return dict(self.table(key)._values)

    def refuse(self, key: str, reason: str, *allowed: object) -> None:
        """Refuse a head whose configuration says anything but what is allowed, absent, or null."""
        value = self._values.get(key)
        if value is not None and value not in allowed:
            raise UnsupportedModelError(f"{self.where}: {key} is {value!r}; {reason}")

    def wrong(self, key: str, expected: str) -> HeadError:
        """Return the error for a value that is not what it must be."""
        return HeadError(f"{self.where}: {key} must be {expected}, not {self._values.get(key)!r}")

    def error(self, message: str) -> HeadError:
        """Return an error that names the file."""
        return HeadError(f"{self.where}: {message}")

    def _value(self, key: str, default: object) -> Any:
        value = self._values.get(key)
        if value is None:
            value = default
        if value is None:
            raise HeadError(f"{self.where} lacks {key!r}; the file is incomplete, download it again")
        return value


LLAMA: Mapping[str, Any] = {"num_hidden_layers": 1}
"""What a flat configuration leaves unsaid; sizes it must say."""


def read_layer(
    settings: Settings, *, defaults: Mapping[str, Any] = LLAMA, biases: bool = True, qk_norm: bool = False
) -> LayerConfig:
    """Return the decoder layer of a configuration in Hugging Face's words.

    `defaults` stand for keys that are absent; `biases` tells whether `attention_bias` and `qkv_bias` count.
    UnsupportedModelError for layers that differ from Llama's in ways that heads here don't have.
    """
    settings.refuse("quantization_config", "quantised heads are not read; use the original one")
    settings.refuse("hidden_act", "only silu is supported", "silu", "swish")
    settings.refuse("mlp_bias", "heads with a bias in the feed-forward are not supported", False)
    settings.refuse("pretraining_tp", "slices of matrices are not computed apart", 1, 0)
    settings.refuse("use_sliding_window", "heads that see a window of the text are not supported", False)
    settings.refuse(
        "layer_types", "heads that see a window of the text are not supported", ["full_attention"]
    )
    settings.refuse("partial_rotary_factor", "heads that rotate a part are not supported", 1, 1.0)
    if (count := settings.whole("num_hidden_layers", defaults.get("num_hidden_layers"))) != 1:
        raise UnsupportedModelError(
            f"{settings.where}: num_hidden_layers is {count}; only heads of one layer are supported"
        )
    hidden = settings.whole("hidden_size", defaults.get("hidden_size"))
    heads = settings.whole("num_attention_heads", defaults.get("num_attention_heads"))
    theta, scaling = _rope(settings)
    everywhere = biases and settings.flag("attention_bias", False)
    return LayerConfig(
        hidden_size=hidden,
        intermediate_size=settings.whole("intermediate_size", defaults.get("intermediate_size")),
        heads=heads,
        kv_heads=settings.whole("num_key_value_heads", defaults.get("num_key_value_heads") or heads),
        head_dim=settings.whole(
            "head_dim", defaults.get("head_dim") or max(hidden // heads, 1), _MOST_HEAD_DIM
        ),
        norm_eps=settings.number("rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_scaling=scaling,
        context_limit=settings.whole(
            "max_position_embeddings", defaults.get("max_position_embeddings") or 2048
        ),
        qkv_bias=biases and settings.flag("qkv_bias", everywhere),
        output_bias=everywhere,
        qk_norm=qk_norm,
    )


def layer_settings(layer: LayerConfig) -> dict[str, Any]:
    """Return a decoder layer in Hugging Face's words, every key of it, in the form that all versions read."""
    scaling = None if layer.rope_scaling is None else dict(layer.rope_scaling)
    if scaling is not None and scaling.get("rope_type") == "linear":
        scaling["type"] = "linear"  # the only key that the original EAGLE code looks at
    return {
        "hidden_size": layer.hidden_size,
        "intermediate_size": layer.intermediate_size,
        "num_hidden_layers": 1,
        "num_attention_heads": layer.heads,
        "num_key_value_heads": layer.kv_heads,
        "head_dim": layer.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": layer.norm_eps,
        "rope_theta": layer.rope_theta,
        "rope_scaling": scaling,
        "max_position_embeddings": layer.context_limit,
        "attention_bias": layer.output_bias,
        "mlp_bias": False,
    }


def _rope(settings: Settings) -> tuple[float, dict[str, Any] | None]:
    """Return the base of the rotary positions and how they are scaled, in whichever words they stand."""
    given = settings.plain("rope_scaling") or settings.plain("rope_parameters")
    given = {key: value for key, value in given.items() if value is not None}
    if any(isinstance(value, dict) for value in given.values()):
        raise UnsupportedModelError(
            f"{settings.where}: rotary parameters that differ between layer types are not supported"
        )
    if "mrope_section" in given:
        raise UnsupportedModelError(
            f"{settings.where}: rotary positions in sections (mrope) are not supported"
        )
    kind = given.pop("rope_type", given.get("type", "default"))
    given.pop("type", None)
    inner = Settings(given, f"{settings.where}: rotary parameters")
    theta = inner.number("rope_theta", settings.number("rope_theta", 10000.0))
    given.pop("rope_theta", None)
    return theta, None if kind == "default" else {"rope_type": kind, **given}
