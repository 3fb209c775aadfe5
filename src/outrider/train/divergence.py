"""How far a draft's law is from the target's, and how often a draft would be kept.

Forward KL, reverse KL and total variation are the losses of Zhou et al. 2024, "DistillSpec" (arXiv
2310.08461, section 4.1). Target laws hold the K likeliest tokens; all other tokens count as one more, which
makes each divergence at most what it is over all tokens, and exactly that where K is the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from outrider.train.readings import Laws

_LEAST = 1e-12
"""Below this a probability counts as this: logarithms stay finite."""


def forward_kl(p: Tensor, log_q: Tensor) -> Tensor:
    """Return KL(p‖q) in nats of each row, `[R, K + 1]` each to `[R]`."""
    return (p * (p.clamp_min(_LEAST).log() - log_q)).sum(dim=-1)


def forward_kl_of_logits(logits: Tensor, ids: Tensor, p: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return Σ weights · KL(p‖softmax(logits)) and its gradient `[R, V]`, which is q − p in each row.

    `p [R, K]` of the tokens `ids [R, K]` sums to 1 in every row; its zeros may stand at any id. The same as
    `forward_kl` with autograd, in a few passes over the logits.
    """
    q = logits.softmax(dim=-1, dtype=torch.float32)
    log_q = q.gather(-1, ids).clamp_min(_LEAST**3).log()
    loss = (forward_kl(p, log_q) * weights).sum()
    gradient = q.mul_(weights[:, None]).scatter_add_(-1, ids, -p * weights[:, None])
    return loss, gradient


def reverse_kl(p: Tensor, log_q: Tensor) -> Tensor:
    """Return KL(q‖p) in nats of each row."""
    return (log_q.exp() * (log_q - p.clamp_min(_LEAST).log())).sum(dim=-1)


def total_variation(p: Tensor, log_q: Tensor) -> Tensor:
    """Return ½ Σ|p − q| of each row: how often a draft is turned down (arXiv 2211.17192, section 3.2)."""
    return (p - log_q.exp()).abs().sum(dim=-1) / 2


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "fkl": forward_kl,
    "rkl": reverse_kl,
    "tv": total_variation,
}


def with_rest(laws: Laws, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return `p` and `log q [R, K + 1]` for draft logits `[R, V]`; the last column is all other tokens."""
    p = laws.probs
    p = torch.cat([p, (1 - p.sum(dim=-1, keepdim=True)).clamp_min(0)], dim=-1)
    logits = logits.float()
    log_q = logits.gather(-1, laws.ids.long()) - logits.logsumexp(dim=-1, keepdim=True)
    rest = (1 - log_q.exp().sum(dim=-1, keepdim=True)).clamp_min(_LEAST).log()
    return p, torch.cat([log_q, rest], dim=-1)


def kept_share(p: Tensor, log_q: Tensor) -> Tensor:
    """Return Σ min(p, q) over the K likeliest tokens: at least so often a draft by q is kept, `[R]`."""
    return torch.minimum(p, log_q.exp())[..., :-1].sum(dim=-1)
