"""The arithmetic of acceptance, alike on rationals, on plain floats and on tensors.

Laws are [V]; target's `p`, draft's `q`, both after the same temperature and filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from outrider.types import Law, Number


def probability(law: Law, token: int) -> Number:
    """Return the probability of one token as a plain number."""
    value = law[token]
    return value.item() if isinstance(value, Tensor) else value


def acceptance(p: Law, q: Law | None, token: int) -> Number:
    """Return min(1, p(x) / q(x)), the probability with which a guess x drawn from `q` passes.

    Without a `q` the guess is a point mass, q(x) = 1. Where q(x) = 0 the guess cannot have been drawn from
    `q`; it never passes. Leviathan et al. 2211.17192, algorithm 1; Chen et al. 2302.01318, algorithm 2.
    """
    wanted = probability(p, token)
    if q is None:
        return min(wanted, type(wanted)(1))
    offered = probability(q, token)
    if offered <= 0:
        return type(wanted)(0)
    return min(wanted / offered, type(wanted)(1))


def residual(p: Law, q: Law | None, token: int) -> Law:
    """Return what is left of `p` for the token that replaces a rejected guess, not normalised.

    That is (p - q)+ over all tokens, whichever guess was rejected; for a point mass, `p` without the guess.
    Rejection needs p(x) < q(x), so some other token has p > q and the residual has mass. Only rounding, or a
    guess that `q` excludes, can leave none; then this is `p` itself, which errs by no more than the rounding
    and never brings back a token of probability zero.
    """
    left = without(p, token) if q is None else positive_part(p, q)
    return left if has_mass(left) else p


def positive_part(p: Law, q: Law, of_p: Number = 1, of_q: Number = 1, into: Tensor | None = None) -> Law:
    """Return (of_p · p - of_q · q)+, not normalised; `into [V]` is overwritten with it (it may be `p`)."""
    if isinstance(p, Tensor):
        assert isinstance(q, Tensor)
        scaled = torch.mul(p, float(of_p), out=into)
        return scaled.sub_(q, alpha=float(of_q)).clamp_min_(0)
    pairs: Iterable[tuple[Any, Any]] = zip(p, q, strict=True)
    return [max(of_p * a - of_q * b, type(a)(0)) for a, b in pairs]


def without(law: Law, token: int) -> Law:
    """Return a law with one token's probability set to zero, not normalised."""
    if isinstance(law, Tensor):
        left = law.clone()
        left[token] = 0
        return left
    plain: Sequence[Any] = law
    return [type(value)(0) if index == token else value for index, value in enumerate(plain)]


def mass(law: Law) -> Number:
    """Return the sum of a law, normalised or not."""
    if isinstance(law, Tensor):
        return float(law.sum(dtype=torch.float64))
    plain: Sequence[Any] = law
    total: Number = sum(plain, type(plain[0])(0))
    return total


def has_mass(law: Law) -> bool:
    """Tell whether any token of a law, normalised or not, can be drawn."""
    return bool((law > 0).any()) if isinstance(law, Tensor) else any(value > 0 for value in law)
