"""The EAGLE-1 and EAGLE-2 head: one decoder layer that predicts the target's next feature.

Li et al. 2024, "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty" (arXiv 2401.15077),
section 4.1. EAGLE-2 (arXiv 2406.16858) grows other trees with the same head. HASS (arXiv 2408.15766) norms
embedding and feature first.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from outrider.heads.attend import Attend
from outrider.heads.layer import HeadAttention, HeadFeedForward, LayerConfig, whole_above_zero


@dataclass(frozen=True)
class EagleConfig:
    """The shape of an EAGLE head, as wide as its target; HeadError where its numbers don't fit together."""

    layer: LayerConfig
    vocab_size: int
    fusion_bias: bool = False
    input_norms: bool = False
    """Embedding and feature have a norm each before they are fused (HASS)."""
    own_embedding: bool = False
    """The head brings its own embedding `[V, H]` instead of being given rows of the target's."""

    def __post_init__(self) -> None:
        whole_above_zero("vocab_size", self.vocab_size)

    @property
    def hidden_size(self) -> int:
        """H: width of the head and of its target."""
        return self.layer.hidden_size


class EagleHead(nn.Module):
    """Predicts the feature at t + 1 from the feature at t and the token at t + 1.

    A feature is the target's last hidden state AFTER its final norm, so the target's own output matrix makes
    logits of what the head predicts; the head has none. Its output is fed back as it is.
    """

    kind = "eagle"

    def __init__(self, config: EagleConfig, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.config = config
        H, eps = config.hidden_size, config.layer.norm_eps
        self.embedding = nn.Embedding(config.vocab_size, H) if config.own_embedding else None
        self.embedding_norm = nn.RMSNorm(H, eps) if config.input_norms else None
        self.feature_norm = nn.RMSNorm(H, eps) if config.input_norms else None
        self.fusion = nn.Linear(2 * H, H, bias=config.fusion_bias)
        self.attention = HeadAttention(config.layer, inputs=H)
        self.feed_forward_norm = nn.RMSNorm(H, eps)
        self.feed_forward = HeadFeedForward(config.layer)
        self.to(dtype)

    def embed(self, tokens: Tensor) -> Tensor:
        """Return rows of the head's own embedding; only where the configuration says there is one."""
        assert self.embedding is not None, "this head is given rows of the target's embedding"
        rows: Tensor = self.embedding(tokens)
        return rows

    def forward(self, features: Tensor, embeddings: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Return the next features: `features` and `embeddings [..., R, H]`, `positions [..., R]`.

        Each row's embedding is that of the token one position after its feature.
        """
        if self.embedding_norm is not None and self.feature_norm is not None:
            embeddings, features = self.embedding_norm(embeddings), self.feature_norm(features)
        x = self.fusion(torch.cat([embeddings, features], dim=-1))
        x = x + self.attention(x, positions, attend)
        out: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return out
