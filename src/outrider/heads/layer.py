"""The decoder layer that EAGLE heads are made of: attention and a gated feed-forward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from outrider.errors import HeadError
from outrider.heads.attend import Attend
from outrider.models.config import RopeConfig
from outrider.models.rope import rope_config


@dataclass(frozen=True)
class LayerConfig:
    """The shape of a head's decoder layer; HeadError where its numbers don't fit together.

    `rope_scaling` holds `rope_type` and what that type needs, as Hugging Face configurations write it, and
    None stands for plain rotary positions.
    """

    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: Mapping[str, Any] | None = None
    context_limit: int = 2048
    """Positions for which the head was made; a scaled rope may depend on it."""
    qkv_bias: bool = False
    output_bias: bool = False
    """Bias of the projection after attention."""
    qk_norm: bool = False
    """RMS norm over each head's query and key, before the rotation (Qwen3)."""

    def __post_init__(self) -> None:
        for name in ("hidden_size", "intermediate_size", "heads", "kv_heads", "head_dim", "context_limit"):
            whole_above_zero(name, getattr(self, name))
        if self.heads % self.kv_heads:
            raise HeadError(f"{self.heads} heads cannot share {self.kv_heads} key/value heads evenly")
        if not (math.isfinite(self.norm_eps) and self.norm_eps > 0):
            raise HeadError(f"norm_eps must be a number above zero, not {self.norm_eps!r}")
        frequencies = (*self.rope.inv_freq, self.rope.scale)
        if not all(map(math.isfinite, frequencies)):
            raise HeadError("the rotary parameters give frequencies that are not finite")

    @cached_property
    def rope(self) -> RopeConfig:
        """The rotary frequencies, scaling worked in."""
        parameters = {**(self.rope_scaling or {}), "rope_theta": self.rope_theta}
        return rope_config(parameters, self.head_dim, self.context_limit)


def whole_above_zero(name: str, value: object) -> None:
    """Refuse with a HeadError what is no whole number above zero."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise HeadError(f"{name} must be a whole number above zero, not {value!r}")


class HeadAttention(nn.Module):
    """Grouped attention with rotary positions (rotate-half); its input may be wider than its output."""

    def __init__(self, config: LayerConfig, inputs: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        wide, narrow = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.query = nn.Linear(inputs, wide, bias=config.qkv_bias)
        self.key = nn.Linear(inputs, narrow, bias=config.qkv_bias)
        self.value = nn.Linear(inputs, narrow, bias=config.qkv_bias)
        self.output = nn.Linear(wide, config.hidden_size, bias=config.output_bias)
        self.query_norm: nn.RMSNorm | None = None
        self.key_norm: nn.RMSNorm | None = None
        if config.qk_norm:
            self.query_norm = nn.RMSNorm(config.head_dim, config.norm_eps)
            self.key_norm = nn.RMSNorm(config.head_dim, config.norm_eps)
        rope = config.rope
        self._frequencies, self._scale = rope.inv_freq, rope.scale

    def forward(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Return the attended rows, `x [..., R, inputs]` and `positions [..., R]` to `[..., R, hidden]`."""
        q = self.query(x).unflatten(-1, (self.heads, self.head_dim))
        k = self.key(x).unflatten(-1, (self.kv_heads, self.head_dim))
        v = self.value(x).unflatten(-1, (self.kv_heads, self.head_dim))
        if self.query_norm is not None and self.key_norm is not None:
            q, k = self.query_norm(q), self.key_norm(k)
        cos, sin = self._rotation(positions)
        mixed = attend(_rotated(q, cos, sin), _rotated(k, cos, sin), v)
        out: Tensor = self.output(mixed.flatten(-2))
        return out

    def _rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosine and sine, `[..., R, 1, D]` float32, whatever the type of the weights."""
        frequencies = torch.tensor(self._frequencies, dtype=torch.float32, device=positions.device)
        angles = positions[..., None].float() * frequencies
        angles = torch.cat([angles, angles], dim=-1)[..., None, :]
        return angles.cos() * self._scale, angles.sin() * self._scale


class HeadFeedForward(nn.Module):
    """down(silu(gate x) · up x)."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[..., hidden]` for `x [..., hidden]`."""
        out: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (x * cos + turned * sin).to(x.dtype)
