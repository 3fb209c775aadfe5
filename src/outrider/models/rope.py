"""Rotary position frequencies, with the ways of stretching them to longer contexts worked in.

RoPE: Su et al. 2021, "RoFormer", equation 15. Linear: Chen et al. 2023, "Extending Context Window of Large
Language Models via Positional Interpolation". YaRN: Peng et al. 2023, "YaRN: Efficient Context Window
Extension of Large Language Models", sections 3.2 and 3.4. The Llama-3 variant came with the release of
Llama 3.1. All is computed in float32 in the order of the reference implementations, so that the frequencies
agree with theirs bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from outrider.errors import LoadError, UnsupportedModelError
from outrider.models.config import RopeConfig

_REFUSED = {
    "dynamic": "its frequencies change with the length of the text, so cached keys would go stale",
    "longrope": "its frequencies change with the length of the text, so cached keys would go stale",
}


def rope_config(parameters: Mapping[str, Any], head_dim: int, context_limit: int) -> RopeConfig:
    """Return the frequencies for a `rope_parameters` dictionary as Hugging Face configurations write it.

    `parameters` holds `rope_theta`, `rope_type` (or the older `type`) and what that type needs. Supported are
    default, linear, llama3 and yarn; UnsupportedModelError for any other, LoadError for values that make no
    sense.
    """
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if parameters.get("partial_rotary_factor") not in (None, 1, 1.0):
        raise UnsupportedModelError(
            "rotary positions over a part of the head (partial_rotary_factor) are not supported"
        )
    if head_dim % 2:
        raise LoadError(f"rotary positions need an even head size, the configuration says {head_dim}")
    base = positive(parameters, "rope_theta")
    if kind == "default":
        return _config(_plain(base, head_dim))
    if kind == "linear":
        return _config(_plain(base, head_dim) / positive(parameters, "factor"))
    if kind == "llama3":
        return _config(_llama3(parameters, _plain(base, head_dim), context_limit))
    if kind == "yarn":
        return _yarn(parameters, base, head_dim, context_limit)
    reason = _REFUSED.get(str(kind), "only default, linear, llama3 and yarn are")
    raise UnsupportedModelError(f"rotary scaling of type {kind!r} is not supported: {reason}")


def divide(rope: RopeConfig, factors: Sequence[float]) -> RopeConfig:
    """Return the frequencies divided by one factor each, which is how GGUF files store Llama-3 scaling."""
    if len(factors) != len(rope.inv_freq):
        raise LoadError(
            f"rope_freqs.weight holds {len(factors)} factors for {len(rope.inv_freq)} frequencies"
        )
    divided = torch.tensor(rope.inv_freq) / torch.tensor(factors)
    return _config(divided, rope.scale)


def rotation(rope: RopeConfig, positions: int) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of at least `positions` positions, `[P, D/2]` float32 each.

    Made in blocks of one size, so that a position's values don't depend on how many are asked for.
    """
    inv_freq = torch.tensor(rope.inv_freq, dtype=torch.float32)
    cosines, sines = [], []
    for start in range(0, max(positions, 1), ROPE_BLOCK):
        angles = torch.outer(torch.arange(start, start + ROPE_BLOCK, dtype=torch.float32), inv_freq)
        cosines.append(angles.cos() * rope.scale)
        sines.append(angles.sin() * rope.scale)
    return torch.cat(cosines), torch.cat(sines)


ROPE_BLOCK = 4096


def positive(values: Mapping[str, Any], key: str, default: float | None = None) -> float:
    """Return a finite number above zero, LoadError otherwise; None counts as absent."""
    value = values.get(key)
    value = default if value is None else value
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value <= 0
    ):
        raise LoadError(f"the configuration's {key} must be a number above zero, not {value!r}")
    return value


def _config(inv_freq: Tensor, scale: float = 1.0) -> RopeConfig:
    return RopeConfig(tuple(inv_freq.tolist()), float(scale))


def _plain(base: float, head_dim: int) -> Tensor:
    return 1.0 / base ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)


def _llama3(parameters: Mapping[str, Any], inv_freq: Tensor, context_limit: int) -> Tensor:
    factor = positive(parameters, "factor")
    low, high = positive(parameters, "low_freq_factor"), positive(parameters, "high_freq_factor")
    if high <= low:
        raise LoadError(f"high_freq_factor ({high}) must be above low_freq_factor ({low})")
    trained = positive(parameters, "original_max_position_embeddings", context_limit)
    wavelength = 2 * math.pi / inv_freq
    share = (trained / wavelength - low) / (high - low)
    blended = (1 - share) * inv_freq / factor + share * inv_freq
    slow, fast = wavelength > trained / low, wavelength < trained / high
    return torch.where(slow, inv_freq / factor, torch.where(fast, inv_freq, blended))


def _yarn(parameters: Mapping[str, Any], base: float, head_dim: int, context_limit: int) -> RopeConfig:
    trained = positive(parameters, "original_max_position_embeddings", context_limit)
    factor = positive(parameters, "factor", context_limit / trained)
    if parameters.get("attention_factor") is not None:
        scale = positive(parameters, "attention_factor")
    elif parameters.get("mscale") and parameters.get("mscale_all_dim"):
        weights = positive(parameters, "mscale"), positive(parameters, "mscale_all_dim")
        scale = _mscale(factor, weights[0]) / _mscale(factor, weights[1])
    else:
        scale = _mscale(factor, 1.0)
    fast = positive(parameters, "beta_fast") if parameters.get("beta_fast") else 32
    slow = positive(parameters, "beta_slow") if parameters.get("beta_slow") else 1
    if base <= 1:
        raise LoadError(f"the configuration's rope_theta must be above one for yarn, not {base!r}")

    def dimension(rotations: float) -> float:
        return head_dim * math.log(trained / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = dimension(fast), dimension(slow)
    if parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    if low == high:
        high += 0.001  # keeps the ramp finite
    ramp = ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    keep = 1 - ramp
    # Written as powers first and reciprocals after, to round as the reference does.
    powers = base ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    return _config(1.0 / (factor * powers) * (1 - keep) + 1.0 / powers * keep, scale)


def _mscale(factor: float, weight: float) -> float:
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0
