"""The shape of a decoder: everything the lean decoder needs to know about a model besides its weights."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary positions, rotate-half layout: `inv_freq [D/2]` and a factor on both cosine and sine.

    Scaled variants (linear, Llama-3, YaRN) are already worked into `inv_freq` and `scale`.
    """

    inv_freq: tuple[float, ...]
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """A pre-norm decoder with grouped-query attention and a gated SiLU feed-forward."""

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope: RopeConfig
    context_limit: int
    tied_embeddings: bool
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    """RMS norm over each head's query and key, before the rotation."""
    windows: tuple[int | None, ...] = ()
    """Per layer the number of positions a row sees (itself included), None for all; () for none at all."""

    def window(self, layer: int) -> int | None:
        """Return how many positions, itself included, a row of this layer sees; None for all."""
        return self.windows[layer] if self.windows else None
