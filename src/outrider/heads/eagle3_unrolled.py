"""Training an EAGLE-3 head on its own output: all positions of a text at once, several steps deep.

"Training-time test" of arXiv 2503.01840, section 3.2 and figure 6. At step j every position t runs on what
step j − 1 gave for it and on the token at t + 1 + j. In drafting it would see the target's features up to t
and, beyond those, its own chain; so here its query sees the keys of step 0 up to t, and of each later step
the one key at t. Positions rise by one a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from outrider.heads.eagle3 import Eagle3Head


class Unrolled:
    """Attention of one unrolled text after another step: call it once a step, in order.

    Keys and values of all steps are held, so one object serves one forward and backward.
    """

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
        shares = torch.cat(scores, dim=-1).float().softmax(dim=-1).to(v.dtype)
        mixed = torch.einsum("bkgts,bskd->btkgd", shares[..., :count], self._values[0])
        for step, values in enumerate(self._values[1:]):
            own = shares[..., count + step].permute(0, 3, 1, 2)[..., None]  # [B, T, Hkv, G, 1]
            mixed = mixed + own * values[..., None, :]
        return mixed.flatten(-3, -2)


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
