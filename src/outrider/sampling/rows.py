"""Work on one row of a vocabulary, [V]: weights, sums, the race for a token.

What is computed is fixed to the last bit. Powers of two are a fixed sequence of float32 operations, none
fused. Sums are of numbers rounded to multiples of a power of two that float64 adds up without rounding, so
their order makes no difference; weights are added up in float32 before, a few at a time, in a fixed order.
Two implementations follow it on a CPU: C++ where it was built (`native/core/row_kernels.hpp`), and the
reference here. So a sampled text does not depend on which of them, or which instruction set, did the work. On
other devices the power of two is the device's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from types import ModuleType

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from outrider.sampling.noise import exponentials, exponentials_of, shortfalls

LOWEST = -125.0
"""Two to the power of anything lower counts as 0, which keeps clear of denormal numbers."""
_SERIES = (0.00967151299, 0.0555073358, 0.240222424, 0.693147004, 1.0)
"""Coefficients below the leading one, 0.00132647273, of 2^r on [-1/2, 1/2]; off by 9.2e-8 of it."""
_BITS = 1 / math.log(2)
_STRETCH, _LANES = 8, 16
"""Sums of weights are taken in float32 over 8 numbers, 16 apart, one after another."""
MAGIC_OF_LAW = 6.0
"""Adding and subtracting it rounds a float64 below 2 to a multiple of 2^-50: sums up to 8 are exact."""
_SLACK = 1 + 1e-9
_LEAST = 1e-38
_FEW = 64
"""Tokens that are looked at one by one: a tensor's operations take longer."""


@cache
def core() -> ModuleType | None:
    """Return the C++ module; None where the reference serves."""
    try:
        from outrider.native import _core
    except ImportError:
        return None
    return _core if hasattr(_core, "row_near") else None  # a module of an earlier build lacks it


def _core_for(*rows: Tensor | None) -> ModuleType | None:
    for row in rows:
        if row is not None and (
            row.device.type != "cpu" or row.dtype != torch.float32 or not row.is_contiguous()
        ):
            return None
    return core()


def weigh(row: Float[Tensor, " V"], coldness: float) -> tuple[float, float]:
    """Return the largest value of a row, `top`, and the sum of exp((x - top) · coldness) over it.

    The sum is off by at most V² · 2^-57 and a few parts in 10^7. Where a row holds NaN one of the two is NaN.
    """
    native = _core_for(row)
    if native is not None:
        top, whole = native.row_weigh(row.numpy(), coldness * _BITS, _magic(row))
        return top, whole
    top = float(row.amax())
    return top, _sum_of_stretches(power_of_two(_bits(row, top, coldness)), _magic(row))


def near(row: Float[Tensor, " V"], reach: float) -> tuple[list[int], list[float]]:
    """Return the places of all values less than `reach` below the largest, in order, and how far below.

    Nothing of a row that holds NaN.
    """
    row = row.to(device="cpu", dtype=torch.float32)
    native = _core_for(row)
    if native is not None:
        places, below = native.row_near(row.numpy(), reach)
        return places, below
    values = row.numpy()
    peak = values.max()
    found = (values > peak - np.float32(reach)).nonzero()[0]
    return found.tolist(), (peak - values[found]).tolist()


def entropy(row: Float[Tensor, " V"], top: float, coldness: float, whole: float) -> float:
    """Return the entropy in nats of the law that `softmax` makes of the same arguments."""
    native = _core_for(row)
    if native is not None:
        depth = float(native.row_depth(row.numpy(), top, coldness * _BITS, _magic(row)))
    else:
        bits = _bits(row, top, coldness).clamp_(min=LOWEST)
        depth = _sum_of_stretches(power_of_two(bits.clone()).mul_(bits), _magic(row))
    return math.log(whole) - depth / (_BITS * whole)


def entropy_of(law: Float[Tensor, " V"]) -> float:
    """Return the entropy of a law in nats."""
    # Several times as fast as torch.special.entr; where p is 0, so is the product.
    return -float(law.clamp_min(_LEAST).log_().mul_(law).sum(dtype=torch.float64))


def softmax(row: Float[Tensor, " V"], top: float, coldness: float, whole: float) -> Float[Tensor, " V"]:
    """Return exp((x - top) · coldness) / whole, float32; an element depends on its own x alone."""
    native = _core_for(row)
    if native is not None:
        out = torch.empty(len(row))
        native.row_softmax(row.numpy(), top, coldness * _BITS, whole, out.numpy())
        return out
    weights = power_of_two(_bits(row, top, coldness))
    # A tensor, not a number: some devices would multiply by a number's reciprocal.
    return weights.div_(torch.tensor(whole, dtype=torch.float32, device=row.device).expand(len(row)))


def share(row: Float[Tensor, " V"], token: int, top: float, coldness: float, whole: float) -> float:
    """Return one element of `softmax`."""
    native = _core_for(row)
    if native is not None:
        return float(native.row_share(row.numpy(), token, top, coldness * _BITS, whole))
    return float(softmax(row[token : token + 1], top, coldness, whole))


def mass(law: Float[Tensor, " V"]) -> float:
    """Return the sum of a law, normalised or not."""
    return excess(law, None, 1.0, ())


def excess(
    p: Float[Tensor, " V"], q: Float[Tensor, " V"] | None, scale: float, without: Sequence[int]
) -> float:
    """Return the sum of (scale · p - q)+ over all tokens but those in `without`, or of scale · p."""
    native = _core_for(p, q)
    if native is not None:
        theirs = None if q is None else q.numpy()
        return float(native.row_excess(p.numpy(), theirs, scale, list(without), MAGIC_OF_LAW))
    left = torch.mul(p, scale) if q is None else torch.mul(p, scale).sub_(q).clamp_min_(0)
    left[list(without)] = 0
    return _sum(left, MAGIC_OF_LAW)


def race(p: Float[Tensor, " V"], key: int, count: int) -> list[int]:
    """Return the first `count` tokens of the race E_i / p_i, `exponentials(key, …)` being E, in order.

    Fewer where `p`, which need not be normalised, has fewer tokens. A token's time is -log(u) / p, no less
    than (1 - u) / p, so most tokens are known to come too late without a logarithm.
    """
    native = _core_for(p)
    if native is not None:
        found: list[int] = native.row_race(p.numpy(), key, count)
        if len(found) <= _FEW:
            return _first_of(p, found, key, count)
        near = torch.tensor(found, dtype=torch.int64)
    else:
        soonest = shortfalls(key, len(p), p.device).div_(p)
        first = _smallest(soonest, count)
        first = first[p[first] > 0]
        bound = float((exponentials(key, first) / p[first]).amax()) if len(first) else 0.0
        near = where(soonest <= bound * _SLACK)
    near = near[p[near] > 0]
    times = exponentials(key, near).div_(p[near])
    tokens: list[int] = near[times.sort(stable=True).indices[:count]].tolist()
    return tokens


def _first_of(p: Float[Tensor, " V"], found: Sequence[int], key: int, count: int) -> list[int]:
    """Return the first `count` tokens of the race among a few, in order, and of equal times the first."""
    chances = p.numpy()[found].tolist()
    waits = exponentials_of(key, found).tolist()
    times = [
        (wait / chance, token)
        for token, wait, chance in zip(found, waits, chances, strict=True)
        if chance > 0
    ]
    return [token for _, token in sorted(times)[:count]]


def power_of_two(bits: Float[Tensor, " V"]) -> Float[Tensor, " V"]:
    """Return 2^x for x <= 0, float32, within 2 units in the last place; 0 below `LOWEST`. `bits` is spent."""
    if bits.device.type != "cpu":
        return bits.exp2_()
    none = bits < LOWEST
    bits.clamp_(min=LOWEST)
    whole = bits.round()
    rest = bits.sub_(whole)
    series = rest.mul(0.00132647273)
    for coefficient in _SERIES[:-1]:
        series.add_(coefficient).mul_(rest)
    series.add_(_SERIES[-1])
    exponents = whole.to(torch.int32).bitwise_left_shift_(23)
    return series.view(torch.int32).add_(exponents).view(torch.float32).masked_fill_(none, 0.0)


def where(mask: Tensor) -> Tensor:
    """Return the indices at which a mask is set; numpy finds them several times as fast on a CPU."""
    if mask.device.type == "cpu":
        return torch.from_numpy(mask.numpy().nonzero()[0])
    return mask.nonzero().flatten()


def _bits(row: Float[Tensor, " V"], top: float, coldness: float) -> Float[Tensor, " V"]:
    """Return how far each value lies below the largest, as a power of two."""
    return (row - top).mul_(coldness * _BITS)


def _magic(row: Float[Tensor, " V"]) -> float:
    """Return what rounds the weights of a row, which are at most 1, so that float64 adds them up exactly."""
    # To multiples of 2^(e - 52), with 2^e about half of V: V of them fit into 53 bits.
    return 1.5 * 2.0 ** max((row.shape[0] - 1).bit_length() - 1, 2)


def _sum_of_stretches(values: Float[Tensor, " V"], magic: float) -> float:
    size = _STRETCH * _LANES
    stretches = torch.nn.functional.pad(values, (0, -len(values) % size)).view(-1, _STRETCH, _LANES)
    sums = stretches[:, 0].clone()
    for nth in range(1, _STRETCH):
        sums += stretches[:, nth]
    return _sum(sums, magic)


def _sum(values: Tensor, magic: float) -> float:
    return float(values.to(torch.float64).add_(magic).sub_(magic).sum())


def _smallest(times: Tensor, count: int) -> Tensor:
    """Return the indices of the `count` smallest; numpy finds them several times as fast on a CPU."""
    if count >= len(times):
        return torch.arange(len(times), device=times.device)
    if times.device.type != "cpu":
        return times.topk(count, largest=False).indices
    if count == 1:
        return torch.tensor([int(times.numpy().argmin())])
    return torch.from_numpy(times.numpy().argpartition(count - 1)[:count])
