"""A fresh EAGLE-3 head for a target: its shape, its draft vocabulary, and what it begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from outrider.errors import OptionError
from outrider.heads.attend import causal
from outrider.heads.eagle3 import Eagle3Config, Eagle3Head, default_feature_layers
from outrider.heads.layer import LayerConfig
from outrider.heads.medusa import MedusaConfig, MedusaHeads
from outrider.models.checkpoint import Checkpoint
from outrider.models.names import EMBEDDING, HEAD
from outrider.train.store import Example
from outrider.train.teacher import Teacher


@dataclass(frozen=True, slots=True)
class HeadShape:
    """What of a head is free to choose."""

    draft_vocab: int = 8192
    """Vd; as large as the target's vocabulary at most."""
    inner: int | None = None
    """Width of the feed-forward; None for the target's."""
    feature_layers: tuple[int, ...] | None = None
    """Layers whose outputs are fused; None for the usual three."""

    def layers_of(self, count: int) -> tuple[int, ...]:
        """Return the layers to fuse of a target of so many; OptionError where it has not all of them."""
        layers = self.feature_layers or default_feature_layers(count)
        if list(layers) != sorted(set(layers)) or not 0 <= layers[0] <= layers[-1] < count:
            raise OptionError(
                f"feature layers {','.join(map(str, layers))}: name layers from 0 to {count - 1}, rising"
            )
        return layers


def draft_vocabulary(texts: Sequence[Example], size: int, vocab_size: int, always: frozenset[int]) -> Tensor:
    """Return the `size` tokens that were written most often, rising, int64 (FR-Spec, arXiv 2502.14856).

    `always` are among them. Where fewer were written at all, the lowest ids make up the number: vocabularies
    begin with what is frequent.
    """
    counts = torch.zeros(vocab_size, dtype=torch.int64)
    for text in texts:
        for start, end in text.spans:
            counts += torch.bincount(torch.tensor(text.tokens[start:end]), minlength=vocab_size)
    for token in always:
        if token < vocab_size:
            counts[token] = counts.max() + 1
    order = torch.sort(counts, descending=True, stable=True).indices
    return order[:size].sort().values


def fresh_head(
    checkpoint: Checkpoint, shape: HeadShape, texts: Sequence[Example], ends: frozenset[int], *, seed: int
) -> tuple[Eagle3Head, Tensor]:
    """Return a head to train and the target's embedding `[V, H]`.

    The head's output matrix, and the norm before it, begin as the target's; the rest is random by `seed`. See
    `settle` for their scale. OptionError for feature layers that the target has not.
    """
    config = checkpoint.config
    layers = shape.layers_of(config.layers)
    size = min(shape.draft_vocab, config.vocab_size)
    head_config = Eagle3Config(
        LayerConfig(
            hidden_size=config.hidden_size,
            intermediate_size=shape.inner or config.intermediate_size,
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            norm_eps=config.norm_eps,
            context_limit=config.context_limit,
            **_rope(checkpoint),
        ),
        vocab_size=config.vocab_size,
        draft_vocab_size=size,
        target_hidden_size=config.hidden_size,
        feature_layers=layers,
    )
    ids = draft_vocabulary(texts, size, config.vocab_size, ends)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = Eagle3Head(head_config, ids)
    embedding = checkpoint.source.get(EMBEDDING)
    output = embedding if config.tied_embeddings else checkpoint.source.get(HEAD)
    with torch.no_grad():
        head.head.weight.copy_(output[ids])
        head.norm.weight.copy_(checkpoint.source.get("model.norm.weight"))
    return head, embedding


@torch.no_grad()
def settle(head: Eagle3Head, teacher: Teacher, embedding: Tensor, texts: Sequence[Example]) -> None:
    """Scale a fresh head by what some texts give: no part of it should drown the others when it begins.

    Features of late layers are so large that what the layer adds to them would not count, and random outputs
    before a trained output matrix make guesses that are sure and wrong. So fused features get a mean square
    of 1, and logits a standard deviation of 1.
    """
    fused, rows = [], []
    for text in texts:
        features = teacher.read(text).features[:, :-1].transpose(0, 1).flatten(1)
        fused.append(head.fuse(features.float().to(embedding.device)))
        rows.append(embedding[torch.tensor(text.tokens[1:], device=embedding.device)].float())
    scale = torch.cat(fused).square().mean().sqrt()
    head.fusion.weight.div_(scale)
    logits = [
        head.logits(head(hidden / scale, row, torch.arange(len(row), device=row.device), causal))
        for hidden, row in zip(fused, rows, strict=True)
    ]
    head.norm.weight.div_(torch.cat(logits).std(dim=-1).mean())


def fresh_medusa(
    checkpoint: Checkpoint,
    draft_vocab: int | None,
    heads: int,
    texts: Sequence[Example],
    ends: frozenset[int],
) -> tuple[MedusaHeads, Tensor]:
    """Return Medusa heads, which begin as the target's own output, and the target's final norm."""
    config = checkpoint.config
    whole = draft_vocab is None or draft_vocab >= config.vocab_size
    size = None if whole else draft_vocab
    ids = None if size is None else draft_vocabulary(texts, size, config.vocab_size, ends)
    shape = MedusaConfig(config.hidden_size, config.vocab_size, heads, draft_vocab_size=size)
    made = MedusaHeads(shape, ids)
    made.start_from(checkpoint.source.get(EMBEDDING if config.tied_embeddings else HEAD))
    return made, checkpoint.source.get("model.norm.weight")


def _rope(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the rotary settings of a head that has the target's positions."""
    values = checkpoint.values
    said = dict(values.get("rope_scaling") or values.get("rope_parameters") or {})
    theta = said.pop("rope_theta", None) or values.get("rope_theta") or 10000.0
    kind = said.get("rope_type", said.get("type", "default"))
    return {"rope_theta": theta, "rope_scaling": None if kind == "default" else said}
