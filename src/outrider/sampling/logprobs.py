"""How likely tokens were: their log-probabilities and the most likely alternatives."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """The natural logarithm of a token's probability, and the most likely tokens at its place."""

    token: int
    logprob: float
    """-inf for a token that could not have been drawn (of a prompt, say)."""
    top: tuple[tuple[int, float], ...] = ()
    """(token id, logprob) from the most likely on, the lowest id first among equals; the tokens of
    probability zero are left out, so there may be fewer than asked for."""


def of_logits(row: Float[Tensor, " V"], token: int, top: int) -> TokenLogprobs:
    """Return the logprobs of a model's own law: the softmax of its logits, at temperature 1, without options.

    They depend on the row alone, bit for bit, so they are equal with and without speculation.
    """
    row = row.to(torch.float32)
    peak = row.amax()
    # Summed in float64, so that the rounded total does not depend on how the sum was split over threads.
    total = math.log((row - peak).exp_().sum(dtype=torch.float64).item()) + peak.item()
    best = [(index, float(row[index]) - total) for index in _largest(row, top)]
    return TokenLogprobs(token, float(row[token]) - total, tuple(best))


def of_law(law: Float[Tensor, " V"], token: int, top: int) -> TokenLogprobs:
    """Return the logprobs of a law that options have shaped, as it was drawn from."""
    best = [(index, math.log(float(law[index]))) for index in _largest(law, top) if law[index] > 0]
    chance = float(law[token])
    return TokenLogprobs(token, math.log(chance) if chance > 0 else -math.inf, tuple(best))


def _largest(values: Float[Tensor, " V"], count: int) -> list[int]:
    """Return the tokens of the largest values that are not -inf, the lowest id first among equals."""
    if count == 0:
        return []
    least = values.topk(min(count, len(values))).values[-1]
    above = (values > least).nonzero().flatten()
    order = values[above].sort(descending=True, stable=True).indices
    equal = (values == least).nonzero().flatten() if least > -torch.inf else above[:0]
    found: list[int] = torch.cat((above[order], equal))[:count].tolist()
    return found
