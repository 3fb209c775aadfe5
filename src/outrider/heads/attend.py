"""How the rows of a head's layer see one another: a function from queries, keys and values to their mixture.

A head projects and rotates; which keys a row sees, and where older keys are kept, is the business of whoever
calls it. That keeps one forward for prompts, chains, trees, batches and training.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.models.attention import Attention


class Attend(Protocol):
    """Scaled dot-product attention with grouped heads.

    Given `q [..., R, heads, D]`, `k` and `v [..., R, kv_heads, D]` of the rows at hand, rotated already,
    returns `[..., R, heads, D]`.
    """

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Mix the values that each row sees."""
        ...


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Let every row see itself and the rows before it; nothing is kept."""
    return _grouped(q, k, v, None)


class Growing:
    """Keeps the keys and values of all rows so far, in order; the simplest cache there is.

    `mask [R, P + R]`, True where a row sees a key, is for the `P` rows kept and the `R` at hand; None means
    all that was kept and the rows before. `keep` cuts what is kept back to its first `count` rows.
    """

    def __init__(self) -> None:
        self.mask: Tensor | None = None
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def __len__(self) -> int:
        return 0 if self._keys is None else self._keys.shape[-3]

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Mix the values that each row sees, and keep the keys and values of the rows at hand."""
        before, rows = len(self), k.shape[-3]
        self._keys = k if self._keys is None else torch.cat([self._keys, k], dim=-3)
        self._values = v if self._values is None else torch.cat([self._values, v], dim=-3)
        mask = self.mask
        if mask is None:
            mask = torch.ones(rows, before + rows, dtype=torch.bool, device=q.device).tril(before)
        assert mask.shape == (rows, before + rows), "a mask has a row for each row at hand"
        return _grouped(q, self._keys, self._values, mask)

    def keep(self, count: int) -> None:
        """Forget all but the first `count` rows."""
        assert 0 <= count <= len(self)
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[..., :count, :, :], self._values[..., :count, :, :]


class Cached:
    """Attention over the caches of the lean decoder: chains and trees of many sequences in one call.

    `attention` is laid out for the rows of one pass (`models.attention.spans`), whose positions are the
    slots of their caches; `layer` is the caches' layer that belongs to the head.
    """

    def __init__(self, attention: Attention, layer: int = 0) -> None:
        self._attention, self._layer = attention, layer

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Mix the values that each row sees; keys and values are stored as pending rows."""
        rows, heads, dim = q.shape
        kv_heads = k.shape[1]
        mixed = self._attention(self._layer, None, q.view(rows, kv_heads, heads // kv_heads, dim), k, v)
        return mixed.reshape(rows, heads, dim)


def _grouped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Run torch's attention, which wants heads before rows; without a mask it is causal."""
    q, k, v = (x.transpose(-3, -2) for x in (q, k, v))
    groups = q.shape[-3] // k.shape[-3]
    if groups > 1:
        k, v = k.repeat_interleave(groups, dim=-3), v.repeat_interleave(groups, dim=-3)
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
    return mixed.transpose(-3, -2)
