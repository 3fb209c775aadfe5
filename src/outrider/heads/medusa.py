"""Medusa heads: each guesses one later token from the target's last hidden state alone.

Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads"
(arXiv 2401.10774), section 2.1: softmax(W2 (SiLU(W1 h) + h)).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from outrider.errors import HeadError
from outrider.heads.layer import whole_above_zero
from outrider.heads.vocab import checked_ids, expand


@dataclass(frozen=True)
class MedusaConfig:
    """The shape of a set of Medusa heads; HeadError where its numbers don't fit together."""

    hidden_size: int
    vocab_size: int
    heads: int
    """K: how many later tokens are guessed."""
    blocks: int = 1
    """Residual blocks of each head."""
    block_bias: bool = True
    shared_output: bool = False
    """One output matrix serves all heads."""
    draft_vocab_size: int | None = None
    """Vd: tokens the heads can name; None for all."""

    def __post_init__(self) -> None:
        for name in ("hidden_size", "vocab_size", "heads", "blocks"):
            whole_above_zero(name, getattr(self, name))
        if self.draft_vocab_size is not None:
            whole_above_zero("draft_vocab_size", self.draft_vocab_size)
            if self.draft_vocab_size >= self.vocab_size:
                raise HeadError(
                    f"a draft vocabulary of {self.draft_vocab_size} tokens is no part of the target's "
                    f"{self.vocab_size}; leave draft_vocab_size out"
                )

    @property
    def outputs(self) -> int:
        """Rows of an output matrix: Vd, or V."""
        return self.draft_vocab_size or self.vocab_size


class MedusaHeads(nn.Module):
    """K heads; head i guesses the token at t + 2 + i from the last hidden state at t, after the final norm.

    (The target's own output matrix gives the token at t + 1 from that state.) Blocks begin at zero, so each
    head begins as its output matrix alone; `start_from` makes that the target's. `target_ids [Vd]` says which
    tokens the draft ids stand for, in any order, where there is a draft vocabulary.
    """

    kind = "medusa"

    def __init__(
        self,
        config: MedusaConfig,
        target_ids: Tensor | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.config = config
        if (target_ids is None) != (config.draft_vocab_size is None):
            raise HeadError("Medusa heads take target_ids if, and only if, they have a draft_vocab_size")
        H = config.hidden_size
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Linear(H, H, bias=config.block_bias) for _ in range(config.blocks))
            for _ in range(config.heads)
        )
        for weight in self.blocks.parameters():
            nn.init.zeros_(weight)
        matrices = 1 if config.shared_output else config.heads
        self.outputs = nn.ModuleList(nn.Linear(H, config.outputs, bias=False) for _ in range(matrices))
        self.target_ids: Tensor | None
        self.register_buffer("target_ids", None)
        if target_ids is not None:
            ids = checked_ids(target_ids, config.vocab_size)
            if len(ids) != config.draft_vocab_size:
                raise HeadError(f"{len(ids)} target_ids for {config.draft_vocab_size} draft tokens")
            self.target_ids = ids
        self.to(dtype)

    @torch.no_grad()
    def start_from(self, target_head: Tensor) -> None:
        """Make every output matrix that of the target, `[V, H]`, or its rows of the draft vocabulary."""
        expected = (self.config.vocab_size, self.config.hidden_size)
        if tuple(target_head.shape) != expected:
            raise HeadError(
                f"the target's output matrix has the shape {list(target_head.shape)}, "
                f"these heads are made for {list(expected)}"
            )
        rows = target_head if self.target_ids is None else target_head[self.target_ids]
        for output in self.outputs:
            output.get_parameter("weight").copy_(rows)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits of all heads, `[..., H]` to `[K, ..., Vd]`."""
        return torch.stack([self.logits(hidden, head) for head in range(self.config.heads)])

    def logits(self, hidden: Tensor, head: int) -> Tensor:
        """Return the logits of one head, `[..., H]` to `[..., Vd]`."""
        for block in self.blocks[head].children():
            hidden = hidden + F.silu(block(hidden))
        logits: Tensor = self.outputs[0 if self.config.shared_output else head](hidden)
        return logits

    def expand(self, logits: Tensor) -> Tensor:
        """Return logits `[..., V]` over the target's tokens for `[..., Vd]`; −inf without a draft id."""
        if self.target_ids is None:
            return logits
        return expand(logits, self.target_ids, self.config.vocab_size)
