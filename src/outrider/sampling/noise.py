"""Counter-based randomness: every number is a pure function of a 64-bit key.

The mixer is the output function of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014); a key's noise for token i is element i of the SplitMix64 stream it seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import torch
from torch import Tensor

_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


class Purpose(IntEnum):
    """What a draw decides; draws for different purposes are independent."""

    TOKEN = 1
    """The target's token at a position."""
    DRAFT = 2
    """A drafter's guess, where the rule asks that it be independent of the target's draws."""
    ACCEPT = 3
    """Whether a guess passes."""
    RESIDUAL = 4
    """The token after the last accepted guess, in rules with acceptance tests."""


def mix(value: int) -> int:
    """Return a bijective scramble of a 64-bit number."""
    value = ((value ^ (value >> 30)) * _FIRST) & _MASK
    value = ((value ^ (value >> 27)) * _SECOND) & _MASK
    return value ^ (value >> 31)


def key(seed: int, request: int, position: int, purpose: Purpose, *extra: int) -> int:
    """Return the 64-bit key of one draw; whole numbers are taken modulo 2^64, and their order matters."""
    state = 0
    for part in (seed, request, position, purpose, *extra):
        state = mix(((state ^ (part & _MASK)) + _GAMMA) & _MASK)
    return state


def uniform(key: int) -> float:
    """Return a number in [0, 1), uniform over the multiples of 2^-53."""
    return float(mix((key + _GAMMA) & _MASK) >> 11) * 2.0**-53


def exponentials(key: int, ids: Tensor | int, device: torch.device | str | None = None) -> Tensor:
    """Return standard exponential noise for tokens, float64 [len(ids)].

    `ids` is an int64 tensor of token ids, or V for all of 0 … V-1 (then on `device`). A token's number does
    not depend on which others are asked for. It is -log u > 0 with u an odd multiple of 2^-53 in (0, 1).
    """
    return _odd(key, ids, device).to(torch.float64).mul_(2.0**-53).log_().neg_()


def exponentials_of(key: int, ids: Sequence[int]) -> Tensor:
    """Return `exponentials` of a few tokens, float64 [len(ids)]: the same bits, with fewer operations."""
    odd = [mix((key + _GAMMA * (token + 1)) & _MASK) >> 11 | 1 for token in ids]
    return torch.tensor(odd, dtype=torch.float64).mul_(2.0**-53).log_().neg_()


def shortfalls(key: int, ids: Tensor | int, device: torch.device | str | None = None) -> Tensor:
    """Return 1 - u for the u of `exponentials`, float64 [len(ids)], exactly: above 0, below -log u, cheap."""
    return _odd(key, ids, device).neg_().add_(2**53).to(torch.float64).mul_(2.0**-53)


def _odd(key: int, ids: Tensor | int, device: torch.device | str | None) -> Tensor:
    if isinstance(ids, int):
        ids = torch.arange(ids, device=device)
    bits = (ids + 1).mul_(_signed(_GAMMA)).add_(_signed(key))
    bits = _xor_shift(bits, 30).mul_(_signed(_FIRST))
    bits = _xor_shift(bits, 27).mul_(_signed(_SECOND))
    bits = _xor_shift(bits, 31)
    # The upper 52 bits and a last bit of 1: exact in float64, never 0 and never 1.
    return bits.bitwise_right_shift_(11).bitwise_and_(2**53 - 1).bitwise_or_(1)


def _signed(value: int) -> int:
    """Return the two's-complement reading of a 64-bit number."""
    return value - 2**64 if value >= 2**63 else value


def _xor_shift(bits: Tensor, by: int) -> Tensor:
    """Return bits ^ (bits >>> by); int64 shifts copy the sign, so its copies are masked off."""
    return bits.bitwise_xor_((bits >> by).bitwise_and_((1 << (64 - by)) - 1))
