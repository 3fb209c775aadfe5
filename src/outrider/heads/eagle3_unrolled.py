"""Training an EAGLE-3 head on its own output: all positions of a text at once, several steps deep.

"Training-time test" of arXiv 2503.01840, section 3.2 and figure 6. At step j every position t runs on what
step j − 1 gave for it and on the token at t + 1 + j. In drafting it would see the target's features up to t
and, beyond those, its own chain; so here its query sees the keys of step 0 up to t, and of each later step
the one key at t. Positions rise by one a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from outrider.heads.eagle3 import Eagle3Head


class Unrolled:
    """Attention of one unrolled text after another step: call it once a step, in order.

    Keys and values of all steps are held, so one object serves one forward and backward.
    """

    def __init__(self) -> None:
        self._held: list[Tensor] = []

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return `[B, T, heads, D]` for `q` of that shape and `k`, `v [B, T, kv_heads, D]` of this step."""
        self._held += (k, v)
        mixed: Tensor = _Mixture.apply(q, *self._held)  # type: ignore[no-untyped-call]
        return mixed


class _Mixture(torch.autograd.Function):
    """softmax(q · keys) · values, over keys of step 0 up to each row and one key of each later step.

    Scores are as many as a text is long, squared: they are worked on in place and the backward is written
    out, because what autograd keeps and copies of them takes several times as long.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, *held: Tensor) -> Tensor:
        """`held`: keys and values of every step, one after the other."""
        count, dim = q.shape[1], q.shape[3]
        rows = _by_head(q / math.sqrt(dim), held[0].shape[2])
        keys, values = ([_by_head(x, x.shape[2]) for x in held[kind::2]] for kind in (0, 1))
        scores = rows.new_empty(*rows.shape[:4], count + len(keys) - 1)
        scores[..., :count] = _times(rows, keys[0].mT)
        scores[..., :count].masked_fill_(_hidden(count, q.device), float("-inf"))
        for step, key in enumerate(keys[1:]):
            scores[..., count + step] = (rows * key).sum(dim=-1)
        shares = scores.softmax(dim=-1)
        mixed = _times(shares[..., :count], values[0])
        for step, value in enumerate(values[1:]):
            mixed += shares[..., count + step, None] * value
        ctx.save_for_backward(rows, shares, *keys, *values)
        return _by_row(mixed, q.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        """Return the gradients of the queries, and of the keys and values of every step."""
        rows, shares, *held = ctx.saved_tensors
        keys, values = held[: len(held) // 2], held[len(held) // 2 :]
        shape, kv_heads, count = grads[0].shape, rows.shape[1], rows.shape[3]
        given = _by_head(grads[0], kv_heads)
        wanted = torch.empty_like(shares)
        wanted[..., :count] = _times(given, values[0].mT)
        for step, value in enumerate(values[1:]):
            wanted[..., count + step] = (given * value).sum(dim=-1)
        wanted = torch._softmax_backward_data(wanted, shares, -1, shares.dtype)
        towards = _times(wanted[..., :count], keys[0])
        found = [_summed(wanted[..., :count].mT, rows), _summed(shares[..., :count].mT, given)]
        for step, key in enumerate(keys[1:]):
            own = wanted[..., count + step, None]
            towards += own * key
            found += [(own * rows).sum(dim=2), (shares[..., count + step, None] * given).sum(dim=2)]
        to_queries = _by_row(towards, shape) / math.sqrt(shape[3])
        return (to_queries, *(grad.transpose(1, 2) for grad in found))


def _hidden(count: int, device: torch.device) -> Tensor:
    """Return which keys of step 0 no row sees: those after it, `[T, T]`."""
    return torch.ones(count, count, dtype=torch.bool, device=device).triu(1)


def _by_head(x: Tensor, kv_heads: int) -> Tensor:
    """Return `[B, kv_heads, G, T, D]` for `[B, T, kv_heads · G, D]`."""
    batch, count, heads, dim = x.shape
    return x.view(batch, count, kv_heads, heads // kv_heads, dim).permute(0, 2, 3, 1, 4).contiguous()


def _by_row(x: Tensor, shape: torch.Size) -> Tensor:
    """Return `[B, T, heads, D]` for `[B, kv_heads, G, T, D]`."""
    return x.permute(0, 3, 1, 2, 4).reshape(shape)


def _times(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return `rows [B, K, G, T, n]` times `matrix [B, K, 1, n, m]`, all groups in one product."""
    return (rows.flatten(2, 3) @ matrix[:, :, 0]).view(*rows.shape[:4], -1)


def _summed(columns: Tensor, rows: Tensor) -> Tensor:
    """Return `[B, K, m, D]`: `columns [B, K, G, m, T]` times `rows [B, K, G, T, D]`, summed over groups."""
    return torch.matmul(columns, rows).sum(dim=2)


def unroll(head: Eagle3Head, features: Tensor, embeddings: Tensor, steps: int) -> Iterator[Tensor]:
    """Yield the layer's output `[B, T, H]` of each of `steps` steps; `head.logits` gives their logits.

    `features [B, T, n · Ht]`, and `embeddings [B, T, H]` of the tokens one position later. At step j the
    output at t is about the token at t + 2 + j; the last j positions of a text have no token to go on with
    and run on zeros, so nothing that comes from them may count. Texts are padded on the right, if at all.
    """
    hidden = head.fuse(features)
    positions = torch.arange(features.shape[1], device=features.device).expand(features.shape[:2])
    attend = Unrolled()
    for step in range(steps):
        output = head(hidden, embeddings, positions + step, attend)
        yield output
        hidden = head.fed_back(output)
        embeddings = torch.cat([embeddings[:, 1:], torch.zeros_like(embeddings[:, :1])], dim=1)
