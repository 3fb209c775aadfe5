"""The arithmetic of acceptance, alike on rationals, on plain floats and on tensors.

Laws are [V]; target's `p`, draft's `q`, both after the same temperature and filters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from outrider.sampling import rows
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
    return acceptance_of(probability(p, token), q, token)


def acceptance_of(wanted: Number, q: Law | None, token: int) -> Number:
    """Return `acceptance` where p(x) is known to be `wanted`."""
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


def positive_part(p: Law, q: Law, scale: Number = 1) -> Law:
    """Return (scale · p - q)+, not normalised."""
    if isinstance(p, Tensor):
        assert isinstance(q, Tensor)
        return torch.mul(p, float(scale)).sub_(q).clamp_min_(0)
    pairs: Iterable[tuple[Any, Any]] = zip(p, q, strict=True)
    return [max(scale * a - b, type(a)(0)) for a, b in pairs]


def positive_part_of(wanted: Number, q: Law, token: int, scale: Number) -> Number:
    """Return what `positive_part` has for one token, where p(x) is known to be `wanted`."""
    if isinstance(q, Tensor):  # rounded as there
        offered = q[token].cpu()
        return max(float(torch.tensor(wanted, dtype=q.dtype).mul_(float(scale)).sub_(offered)), 0.0)
    left: Number = max(scale * wanted - q[token], type(wanted)(0))
    return left


def mass_left(p: Law, q: Law | None, scale: Number, gone: Sequence[int]) -> Number:
    """Return the sum of `positive_part`, or of `p` without a `q`, over all tokens but those in `gone`.

    Of tensors in C++ where it was built (see `outrider.sampling.rows`); nothing of their size is made then.
    """
    if isinstance(p, Tensor):
        assert q is None or isinstance(q, Tensor)
        return rows.excess(p, q, 1.0 if q is None else float(scale), gone)
    left = p if q is None else positive_part(p, q, scale)
    return mass(without(left, *gone))


def without(law: Law, *tokens: int) -> Law:
    """Return a law with the probability of some tokens set to zero, not normalised."""
    if isinstance(law, Tensor):
        left = law.clone()
        left[list(tokens)] = 0
        return left
    plain: Sequence[Any] = law
    return [type(value)(0) if index in tokens else value for index, value in enumerate(plain)]


def mass(law: Law) -> Number:
    """Return the sum of a law, normalised or not."""
    if isinstance(law, Tensor):
        return rows.mass(law)
    plain: Sequence[Any] = law
    total: Number = sum(plain, type(plain[0])(0))
    return total


def entropy(law: Law) -> float:
    """Return the entropy of a law in nats."""
    if isinstance(law, Tensor):
        return rows.entropy_of(law)
    return -sum(float(p) * math.log(p) for p in law if p > 0)


def has_mass(law: Law) -> bool:
    """Tell whether any token of a law, normalised or not, can be drawn."""
    return bool((law > 0).any()) if isinstance(law, Tensor) else any(value > 0 for value in law)
