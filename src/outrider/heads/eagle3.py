"""The EAGLE-3 head: one decoder layer over the next token's embedding and features of three target layers.

Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time Test"
(arXiv 2503.01840), section 3 and figure 5. The optional norms before the fusion, and feeding back the normed
output, are EAGLE 3.1 (arXiv 2605.09992).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from outrider.errors import HeadError
from outrider.heads.attend import Attend
from outrider.heads.layer import HeadAttention, HeadFeedForward, LayerConfig, whole_above_zero
from outrider.heads.vocab import checked_ids, expand


@dataclass(frozen=True)
class Eagle3Config:
    """The shape of an EAGLE-3 head; HeadError where its numbers don't fit together.

    Features are what the target's residual stream holds after a layer. `feature_layers` names those layers,
    rising, each by the index of the layer whose OUTPUT is taken, counted from 0, as `run(captured=…)` of the
    decoders and `PassOutput.hidden` do. None stands for the layers that EAGLE-3 takes where nothing is said:
    `layers_of` works them out. Files of other programs may count otherwise; `heads/formats` converts.
    """

    layer: LayerConfig
    vocab_size: int
    """V: tokens of the target."""
    draft_vocab_size: int
    """Vd: tokens the head can name, at most V."""
    target_hidden_size: int
    """Ht: width of the target's residual stream."""
    feature_layers: tuple[int, ...] | None = None
    norm_before_residual: bool = False
    """The layer's residual is the normed feature instead of the feature itself."""
    feature_norms: bool = False
    """Each layer's feature has a norm of its own before the fusion (`fc_norm`, EAGLE 3.1)."""
    input_norm: bool = False
    """All features together have one norm before the fusion (`norm_before_fc`), instead of one each."""
    feed_normed: bool = False
    """The next step is fed the output after the final norm instead of before it (EAGLE 3.1). Logits are
    always those of the normed output. Serving engines call this `norm_output`, as does SpecForge now; there
    the word once meant something else."""
    own_embedding: bool = False
    """The head brings its own embedding `[V, H]` instead of being given rows of the target's."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "draft_vocab_size", "target_hidden_size"):
            whole_above_zero(name, getattr(self, name))
        if self.draft_vocab_size > self.vocab_size:
            raise HeadError(
                f"a draft vocabulary of {self.draft_vocab_size} tokens exceeds the target's {self.vocab_size}"
            )
        if self.feature_norms and self.input_norm:
            raise HeadError("a head norms its features one by one (fc_norm) or all at once, not both ways")
        if not self.own_embedding and self.hidden_size != self.target_hidden_size:
            raise HeadError(
                f"a head of width {self.hidden_size} cannot use the embedding of a target of width "
                f"{self.target_hidden_size}; it needs its own"
            )
        layers = self.feature_layers
        if layers is not None:
            rising = all(a < b for a, b in itertools.pairwise(layers))
            if not layers or not all(type(index) is int and index >= 0 for index in layers) or not rising:
                raise HeadError(f"feature_layers must be rising layer indices from 0, not {layers!r}")

    @property
    def hidden_size(self) -> int:
        """H: width of the head."""
        return self.layer.hidden_size

    @property
    def feature_count(self) -> int:
        """n: how many layers' features are fused."""
        return 3 if self.feature_layers is None else len(self.feature_layers)

    def layers_of(self, target_layers: int) -> tuple[int, ...]:
        """Return the layers to capture in a target of so many layers; HeadError where they are not there."""
        layers = default_feature_layers(target_layers) if self.feature_layers is None else self.feature_layers
        if layers[-1] >= target_layers:
            raise HeadError(
                f"the head reads the output of layer {layers[-1]}, but the target's last layer is "
                f"{target_layers - 1} (of {target_layers}); it was made for another target"
            )
        return layers


def default_feature_layers(target_layers: int) -> tuple[int, int, int]:
    """Return the layers whose outputs EAGLE-3 fuses where a file names none: an early, a middle, a late one.

    HeadError for a target of fewer than 7 layers, where they would not be three.
    """
    if target_layers < 7:
        raise HeadError(
            f"a target of {target_layers} layers has no usual feature layers for EAGLE-3 (that takes 7); "
            "name them (feature_layers)"
        )
    return 1, target_layers // 2 - 1, target_layers - 4


class Eagle3Head(nn.Module):
    """Predicts the token after the next from features of position t and the token at t + 1.

    A first row takes `fuse(features)`, a later one what `fed_back` gives for the row before. The embedding
    is that of the token one position after the feature; `positions` are those of the features. Weights are
    made in torch's usual random way; `target_ids [Vd]` (int64) says which tokens the draft ids stand for and
    may be left out where Vd = V.
    """

    kind = "eagle3"

    def __init__(
        self,
        config: Eagle3Config,
        target_ids: Tensor | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.config = config
        layer, H, eps = config.layer, config.hidden_size, config.layer.norm_eps
        wide = config.feature_count * config.target_hidden_size
        self.feature_norms: nn.ModuleList | None = None
        self.input_norm: nn.RMSNorm | None = None
        self.embedding: nn.Embedding | None = None
        if config.feature_norms:
            norms = (nn.RMSNorm(config.target_hidden_size, eps) for _ in range(config.feature_count))
            self.feature_norms = nn.ModuleList(norms)
        if config.input_norm:
            self.input_norm = nn.RMSNorm(wide, eps)
        if config.own_embedding:
            self.embedding = nn.Embedding(config.vocab_size, H)
        self.fusion = nn.Linear(wide, H, bias=False)
        self.embedding_norm = nn.RMSNorm(H, eps)
        self.hidden_norm = nn.RMSNorm(H, eps)
        self.attention = HeadAttention(layer, inputs=2 * H)
        self.feed_forward_norm = nn.RMSNorm(H, eps)
        self.feed_forward = HeadFeedForward(layer)
        self.norm = nn.RMSNorm(H, eps)
        self.head = nn.Linear(H, config.draft_vocab_size, bias=False)
        self.target_ids: Tensor
        self.register_buffer("target_ids", _draft_ids(target_ids, config))
        self.to(dtype)  # whole numbers stay whole

    def fuse(self, features: Tensor | Sequence[Tensor]) -> Tensor:
        """Fuse features, early layers first: `[..., n · Ht]`, or n of `[..., Ht]`, to `[..., H]`."""
        if not isinstance(features, Tensor):
            features = torch.cat(tuple(features), dim=-1)
        if self.feature_norms is not None:
            parts = features.chunk(len(self.feature_norms), dim=-1)
            features = torch.cat([n(x) for n, x in zip(self.feature_norms, parts, strict=True)], dim=-1)
        if self.input_norm is not None:
            features = self.input_norm(features)
        fused: Tensor = self.fusion(features)
        return fused

    def embed(self, tokens: Tensor) -> Tensor:
        """Return rows of the head's own embedding; only where the configuration says there is one."""
        assert self.embedding is not None, "this head is given rows of the target's embedding"
        rows: Tensor = self.embedding(tokens)
        return rows

    def forward(self, hidden: Tensor, embeddings: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Run the layer: `hidden` and `embeddings [..., R, H]`, `positions [..., R]` to `[..., R, H]`."""
        normed = self.hidden_norm(hidden)
        residual = normed if self.config.norm_before_residual else hidden
        x = torch.cat([self.embedding_norm(embeddings), normed], dim=-1)
        x = residual + self.attention(x, positions, attend)
        out: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return out

    def fed_back(self, output: Tensor) -> Tensor:
        """Return what the next step takes as `hidden` after this output `[..., H]`."""
        fed: Tensor = self.norm(output) if self.config.feed_normed else output
        return fed

    def logits(self, output: Tensor) -> Tensor:
        """Return the logits of the draft vocabulary for the layer's output, `[..., H]` to `[..., Vd]`."""
        logits: Tensor = self.head(self.norm(output))
        return logits

    def expand(self, logits: Tensor) -> Tensor:
        """Return logits `[..., V]` over the target's tokens for `[..., Vd]`; −inf without a draft id."""
        if self.config.draft_vocab_size == self.config.vocab_size:
            return logits
        return expand(logits, self.target_ids, self.config.vocab_size)


def _draft_ids(target_ids: Tensor | None, config: Eagle3Config) -> Tensor:
    if target_ids is None:
        if config.draft_vocab_size != config.vocab_size:
            raise HeadError(
                f"a head that names {config.draft_vocab_size} of {config.vocab_size} tokens needs target_ids"
            )
        return torch.arange(config.vocab_size)
    ids = checked_ids(target_ids, config.vocab_size)
    if len(ids) != config.draft_vocab_size:
        raise HeadError(f"{len(ids)} target_ids for a draft vocabulary of {config.draft_vocab_size} tokens")
    if len(ids) > 1 and not bool((ids.diff() > 0).all()):
        raise HeadError("target_ids must rise: draft ids follow the order of the target's")
    return ids
