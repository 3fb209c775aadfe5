"""The attention of unrolled training against a plain one, values and gradients."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from outrider.heads.eagle3_unrolled import Unrolled


class PlainUnrolled:
    """What `Unrolled` works out, with nothing but autograd."""

    def __init__(self) -> None:
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return `[B, T, heads, D]` for `q` of that shape and `k`, `v [B, T, kv_heads, D]` of this step."""
        self._keys.append(k)
        self._values.append(v)
        (count, heads, dim), kv_heads = q.shape[1:], k.shape[-2]
        grouped = q.view(*q.shape[:2], kv_heads, heads // kv_heads, dim) / math.sqrt(dim)
        first = torch.einsum("btkgd,bskd->bkgts", grouped, self._keys[0])
        hidden = torch.ones(count, count, dtype=torch.bool, device=q.device).triu(1)
        scores = [first.masked_fill(hidden, float("-inf"))]
        for keys in self._keys[1:]:
            scores.append(torch.einsum("btkgd,btkd->bkgt", grouped, keys)[..., None])
        shares = torch.cat(scores, dim=-1).softmax(dim=-1)
        mixed = torch.einsum("bkgts,bskd->btkgd", shares[..., :count], self._values[0])
        for step, values in enumerate(self._values[1:]):
            own = shares[..., count + step].permute(0, 3, 1, 2)[..., None]  # [B, T, Hkv, G, 1]
            mixed = mixed + own * values[..., None, :]
        return mixed.flatten(-3, -2)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_unrolled_attention_and_its_gradients_are_those_of_plain_attention(
    heads: int, kv_heads: int, steps: int
) -> None:
    dice = torch.Generator().manual_seed(heads + steps)
    found = []
    inputs = [
        [torch.randn(2, 9, h, 8, dtype=torch.float64, generator=dice) for h in (heads, kv_heads, kv_heads)]
        for _ in range(steps)
    ]
    towards = torch.randn(steps, 2, 9, heads, 8, dtype=torch.float64, generator=dice)
    for kind in (Unrolled, PlainUnrolled):
        leaves = [[x.clone().requires_grad_() for x in step] for step in inputs]
        attend = kind()
        outputs = torch.stack([attend(*step) for step in leaves])
        outputs.backward(towards)
        found.append([outputs.detach(), *(x.grad for step in leaves for x in step)])
    for fast, plain in zip(*found, strict=True):
        assert fast is not None
        assert plain is not None
        torch.testing.assert_close(fast, plain)
