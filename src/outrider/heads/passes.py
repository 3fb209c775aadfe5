"""Runs a head over the rows of many sequences at once, with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from outrider.cache.base import Cache, Page
from outrider.cache.kv import KvCache, kv_caches
from outrider.errors import CapabilityError
from outrider.heads.attend import Cached
from outrider.heads.eagle import EagleHead
from outrider.heads.eagle3 import Eagle3Head
from outrider.models.attention import Attention, spans, stable_queries
from outrider.models.base import Batch

Embed = Callable[[Sequence[int]], Tensor]
"""Returns the embeddings of tokens, float32 [R, H]."""
Head = Callable[[Tensor], Tensor]
"""Returns logits [R, V] of states [R, H] after the final norm."""


class HeadOutput(Protocol):
    """What one pass of a head gives for the rows of `Batch.wanted`, in their order, float32."""

    @property
    def logits(self) -> Tensor:
        """Over the tokens that the head can name, [W, Vd]."""
        ...

    @property
    def states(self) -> Tensor:
        """What rows that continue these take as their inputs, [W, H]."""
        ...


@dataclass(frozen=True, slots=True)
class TorchHeadOutput:
    """Implements `HeadOutput`."""

    logits: Tensor
    states: Tensor


class HeadPass(Protocol):
    """A head that is ready to draft: one call runs it over the rows of all sequences.

    The row at position p belongs to the target's state there and to the token one position later; its slot
    in the cache is p.
    """

    weight_bytes: int
    """Bytes of the matrices that a pass reads."""
    features: int | None
    """F, values of a row of features; None where they are as wide as its inputs."""
    can_grow: bool
    """True where a pass may add rows to those that are pending in the caches (`grows`)."""

    def new_cache(self, pages: Sequence[Page] = ()) -> Cache:
        """Return a cache for one sequence: empty, or beginning with pages of this head's other caches."""
        ...

    def run(
        self,
        batch: Batch,
        caches: Sequence[Cache],
        *,
        features: Tensor | None = None,
        inputs: Tensor | None = None,
        grows: bool = False,
    ) -> HeadOutput:
        """Run one pass; rows become pending in the caches, as those of a target's pass.

        `batch.tokens [R]` are the tokens one position later. Either `features [R, n * Ht]`, the target's
        states, or `inputs [R, H]`, what an earlier pass gave for the row before. With `grows` the rows that
        are pending stay, and these come after them: a parent of −2 − i is pending row i of the sequence.
        CapabilityError for that where it cannot be done.
        """
        ...


@dataclass
class ReadyHead:
    """A head that was loaded for a target. It can be timed like a `models.base.Target`."""

    passes: HeadPass
    hidden_size: int
    """H: width of its inputs."""
    vocab_size: int
    """V: tokens of the target."""
    target_ids: Tensor | None
    """[Vd]: the target's tokens that the logits are of, rising; None where they are of all of them."""
    context_limit: int
    """The target's."""
    features: tuple[int, ...]
    """The target's states that it reads, as `PassOutput.hidden` names them."""
    cost: float
    """The time of a pass over one of the target, by the bytes that each reads; 0 where one does not say."""
    can_branch = True
    can_capture = False

    def new_cache(self, pages: Sequence[Page] = ()) -> Cache:
        """Return a cache of the head."""
        return self.passes.new_cache(pages)

    def forward(self, batch: Batch, caches: Sequence[Cache]) -> Tensor:
        """Run the head on zeros as a target would be run, so that passes can be timed; logits [W, Vd]."""
        return self.passes.run(batch, caches, inputs=torch.zeros(len(batch), self.hidden_size)).logits


class TorchHeadPass:
    """Implements `HeadPass` for EAGLE-1 and EAGLE-3 heads as PyTorch modules.

    On a CPU a row's logits don't depend on the other rows beyond rounding; nothing of the text hangs on that.
    """

    can_grow = False

    def __init__(
        self, head: Eagle3Head | EagleHead, *, embed: Embed | None = None, target_head: Head | None = None
    ) -> None:
        """`embed`: the target's embedding, for a head without one; `target_head`: for one that ends in it."""
        self._head, self._target_head = head.eval().requires_grad_(False), target_head
        self._embed = embed
        layer = head.config.layer
        self._device = next(head.parameters()).device
        self._shape = (1, layer.kv_heads, layer.head_dim, self._device)
        self._groups = layer.heads // layer.kv_heads
        self._queries = stable_queries(layer.kv_heads, self._groups, layer.head_dim, self._device)
        self.features = head.fusion.in_features if isinstance(head, Eagle3Head) else None
        self.weight_bytes = sum(weights.nbytes for weights in head.parameters() if weights.dim() == 2)

    def new_cache(self, pages: Sequence[Page] = ()) -> KvCache:
        """Return a cache for one sequence, which begins with these pages; ValueError for pages of others."""
        return KvCache(*self._shape, pages)

    @torch.inference_mode()
    def run(
        self,
        batch: Batch,
        caches: Sequence[Cache],
        *,
        features: Tensor | None = None,
        inputs: Tensor | None = None,
        grows: bool = False,
    ) -> TorchHeadOutput:
        """Run one pass over `batch`; see `HeadPass.run`."""
        if grows:
            raise CapabilityError(
                "a PyTorch pass replaces pending rows; run them again, or use the native pass"
            )
        head = self._head
        own = kv_caches(caches)
        attention = Attention(spans(batch, own, self._device), self._groups, self._queries)
        embeddings = self._embeddings(batch.tokens)
        positions = torch.tensor(batch.positions, device=self._device)
        wanted = torch.tensor(batch.wanted, dtype=torch.long, device=self._device)
        if isinstance(head, Eagle3Head):
            x = head.fuse(features) if features is not None else inputs
            assert x is not None
            output = head(x, embeddings, positions, Cached(attention))
            return TorchHeadOutput(head.logits(output[wanted]), head.fed_back(output[wanted]))
        x = features if features is not None else inputs
        assert x is not None
        assert self._target_head is not None, "an EAGLE-1 head ends in the target's"
        output = head(x, embeddings, positions, Cached(attention))
        return TorchHeadOutput(self._target_head(output[wanted]), output[wanted])

    def _embeddings(self, tokens: Sequence[int]) -> Tensor:
        if self._head.embedding is not None:
            return self._head.embed(torch.tensor(tokens, device=self._device))
        assert self._embed is not None, "this head is given rows of the target's embedding"
        return self._embed(tokens)
