"""What top_k, top_p and typical_p leave of one row, [V]; see `law` for their order."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.sampling import rows
from outrider.sampling.params import SamplingParams

STRETCH = 64
"""Tokens whose maximum is taken together where only the largest logits are wanted."""


def kth_largest(row: Float[Tensor, " V"], k: int) -> Tensor:
    """Return the k-th largest of a row's values, a scalar."""
    # The k-th largest of the maxima of stretches is no more than that of the row, and few values reach it.
    stretches = len(row) // STRETCH
    if stretches >= 2 * k:
        least = row[: stretches * STRETCH].view(-1, STRETCH).amax(1).topk(k).values[-1]
        row = row[row >= least]
    return row.topk(k).values[-1]


def filtered(weights: Float[Tensor, " V"], params: SamplingParams) -> Float[Tensor, " V"]:
    """Return the law that top_p, min_p and typical_p leave of weights of which the largest is exactly 1."""
    if params.top_p < 1:
        weights = nucleus(weights, params.top_p)
    if params.min_p > 0:
        weights.masked_fill_(weights < params.min_p, 0.0)
    if params.typical_p < 1:
        weights = typical(weights, params.typical_p)
    # Summed in float64, so that the rounded total does not depend on how the sum was split over threads.
    return weights.div_(weights.sum(dtype=torch.float64).item())


def nucleus(weights: Float[Tensor, " V"], top_p: float) -> Float[Tensor, " V"]:
    """Keep the heaviest tokens until their share of the total reaches top_p (Holtzman et al. 2020)."""
    total = weights.sum(dtype=torch.float64).item()
    ids = rows.where(weights >= _light(total, top_p, len(weights)))
    heavy = weights[ids]
    # Sorting many tokens is slow. The upper half of a positive float's bits orders tokens into narrow bands
    # of weight; only the band in which top_p is reached needs to be sorted.
    bands = heavy.view(torch.int32) >> 16
    mass = torch.bincount(bands, weights=heavy.to(torch.float64))
    reached = mass.flip(0).cumsum(0)
    wanted = min(top_p * total, reached[-1].item())
    above = int((reached < wanted).sum())
    band = len(mass) - 1 - above
    missing = wanted - (reached[above - 1].item() if above else 0.0)
    inside = (bands == band).nonzero().flatten()
    heaviest, order = heavy[inside].sort(descending=True, stable=True)
    count = int((heaviest.cumsum(0, dtype=torch.float64) < missing).sum()) + 1
    kept = ids[torch.cat(((bands > band).nonzero().flatten(), inside[order[:count]]))]
    return torch.zeros_like(weights).index_copy_(0, kept, weights[kept])


def typical(weights: Float[Tensor, " V"], typical_p: float) -> Float[Tensor, " V"]:
    """Keep the tokens of most typical surprise until their share of the total reaches typical_p."""
    total = weights.sum(dtype=torch.float64).item()
    entropy = math.log(total) + torch.special.entr(weights).sum(dtype=torch.float64).item() / total
    # No token's surprise lies further below the entropy than 0. Light tokens whose surprise lies further
    # above it than that come last; without them typical_p is reached.
    least = _light(total, typical_p, len(weights))
    ids = rows.where(weights >= least if math.log(total / least) > 2 * entropy + 1e-3 else weights > 0)
    share = weights[ids].to(torch.float64).div_(total)
    distance = share.log().neg_().sub_(entropy).abs_().to(torch.float32)
    # As above, only the band of distances in which typical_p is reached needs to be sorted.
    bands = distance.view(torch.int32) >> 16
    reached = torch.bincount(bands, weights=share).cumsum(0)
    band = min(int((reached < typical_p).sum()), len(reached) - 1)
    missing = typical_p - (reached[band - 1].item() if band else 0.0)
    inside = (bands == band).nonzero().flatten()
    nearest, order = distance[inside].sort(stable=True)
    count = int((share[inside][order].cumsum(0) < missing).sum())
    furthest = nearest[min(count, len(nearest) - 1)]
    kept = ids[distance <= furthest]
    return torch.zeros_like(weights).index_copy_(0, kept, weights[kept])


def _light(total: float, share: float, count: int) -> float:
    """Return a weight so small that all tokens below it together hold less than 1 - share of the total.

    It is above 0, so what has no weight is light, too.
    """
    return max((1 - share) * total / count * (1 - 1e-6), 1e-45)
