"""Where the random decisions of a step come from, as an argument."""

from __future__ import annotations

from typing import Protocol

from outrider.types import Law, Number


class Draws(Protocol):
    """The random decisions of one step of one sequence.

    Every decision is a pure function of the request's seed and of what is being decided, so it may be asked
    for in any order, and asking twice gives the same answer. The proofs replace it by one that follows every
    branch with its exact probability.
    """

    def accepts(self, probability: Number, node: int) -> bool:
        """Decide whether draft node `node` passes: u < probability, u uniform in [0, 1)."""
        ...

    def token(self, law: Law, depth: int) -> int:
        """Draw a token from `law [V]` (not necessarily normalised) for the position `depth` after the
        committed text; depth 0 is the position right after the last committed token.
        """
        ...

    def tokens(self, law: Law, count: int, depth: int, node: int) -> list[int]:
        """Draw up to `count` different tokens from `law [V]` for the children of draft node `node` (−1: of
        the last committed token), in order: each from the law without those before it.

        Fewer where the law has fewer tokens. Where the rule shares its noise with the drafter, they are the
        first arrivals of the position's one exponential race, whatever `node`, and the first of them is
        `token(law, depth)`; else every node has draws of its own.
        """
        ...


class SharesNoise(Protocol):
    """The part of an acceptance rule that decides which draws it is given."""

    @property
    def shares_noise(self) -> bool:
        """True when a drafter must draw with the noise that later draws the target's token."""
        ...


class DrawSource(Protocol):
    """Where all draws of one sequence come from; a step begins with `base` committed tokens."""

    def for_rule(self, rule: SharesNoise, base: int) -> Draws:
        """Return what `rule` draws from in a step."""
        ...

    def for_draft(self, rule: SharesNoise, base: int) -> Draws:
        """Return what a drafter draws from under `rule`: its very noise, or noise independent of it."""
        ...
