"""Draws that are pure functions of the seed and of what is being decided."""

from __future__ import annotations

import torch
from torch import Tensor

from outrider.sampling import rows
from outrider.sampling.draws import Draws, SharesNoise
from outrider.sampling.noise import Purpose, key, uniform
from outrider.sampling.pick import pick
from outrider.types import Law, Number


class SharedDraws:
    """Draws that depend on (seed, request, absolute position) only, whoever asks and in whatever round.

    A token is the winner of an exponential race, argmin E_i / p_i (Gumbel-max in other words), so that target
    and drafter, racing with the same noise, agree often (Daliri, Musco and Suresh, 2408.07978). `base` is the
    number of committed tokens when the step begins.
    """

    def __init__(self, seed: int, request: int, base: int) -> None:
        self._seed, self._request, self._base = seed, request, base

    def accepts(self, probability: Number, node: int) -> bool:
        """Decide whether draft node `node` of this step passes: u < probability."""
        return uniform(key(self._seed, self._request, self._base, Purpose.ACCEPT, node)) < probability

    def token(self, law: Law, depth: int) -> int:
        """Draw a token from `law [V]` for absolute position `base + depth`."""
        return race(law, key(self._seed, self._request, self._base + depth, Purpose.TOKEN))

    def tokens(self, law: Law, count: int, depth: int, node: int) -> list[int]:
        """Draw different tokens for absolute position `base + depth`, whichever node they continue."""
        return arrivals(law, key(self._seed, self._request, self._base + depth, Purpose.TOKEN), count)


class StepDraws:
    """Draws that no other step, purpose, depth or node shares, each from one uniform number.

    `base`, the number of committed tokens when the step begins, grows with every step, so it names the step.
    `purpose` tells the drafter's tokens from the rule's.
    """

    def __init__(self, seed: int, request: int, base: int, purpose: Purpose) -> None:
        self._seed, self._request, self._base, self._purpose = seed, request, base, purpose

    def accepts(self, probability: Number, node: int) -> bool:
        """Decide whether draft node `node` of this step passes: u < probability."""
        return uniform(key(self._seed, self._request, self._base, Purpose.ACCEPT, node)) < probability

    def token(self, law: Law, depth: int) -> int:
        """Draw a token from `law [V]` for the position `depth` after the committed text, in this step."""
        return pick(law, uniform(key(self._seed, self._request, self._base, self._purpose, depth)))

    def tokens(self, law: Law, count: int, depth: int, node: int) -> list[int]:
        """Draw different tokens for the children of `node` at `depth`, in this step."""
        weights = law if isinstance(law, Tensor) else torch.tensor([float(p) for p in law])
        drawn: list[int] = []
        for nth in range(count):
            if nth:  # without replacement
                weights = weights.clone() if nth == 1 else weights
                weights[drawn[-1]] = 0
                if not weights.amax() > 0:
                    break
            name = key(self._seed, self._request, self._base, self._purpose, depth, node, nth)
            drawn.append(pick(weights, uniform(name)))
        return drawn


class KeyedSource:
    """Draws keyed by a request's seed and number; implements `outrider.sampling.draws.DrawSource`."""

    def __init__(self, seed: int, request: int) -> None:
        self._seed, self._request = seed, request

    def for_rule(self, rule: SharesNoise, base: int) -> Draws:
        """Return what `rule` draws from in the step that begins with `base` committed tokens."""
        if rule.shares_noise:
            return SharedDraws(self._seed, self._request, base)
        return StepDraws(self._seed, self._request, base, Purpose.RESIDUAL)

    def for_draft(self, rule: SharesNoise, base: int) -> Draws:
        """Return what a drafter draws from under `rule`: its very noise, or noise independent of it."""
        if rule.shares_noise:
            return SharedDraws(self._seed, self._request, base)
        return StepDraws(self._seed, self._request, base, Purpose.DRAFT)


def race(law: Law, key: int) -> int:
    """Draw a token from `law [V]`, which need not be normalised: argmin E_i / p_i over its support.

    The noise is that of `exponentials(key, …)`. The winner does not change when the law is scaled or when
    tokens of probability zero are added.
    """
    return arrivals(law, key, 1)[0]


def arrivals(law: Law, key: int, count: int) -> list[int]:
    """Return the first `count` tokens of the race, in order: draws from `law [V]` without replacement.

    The first is the one that `race` returns. Fewer than `count` where the law has fewer tokens.
    """
    if count == 0:
        return []
    weights = law if isinstance(law, Tensor) else torch.tensor([float(p) for p in law], dtype=torch.float64)
    tokens = rows.race(weights, key, count)
    assert tokens, "a law without a token"
    return tokens
