"""Stops the drafts of a sequence whose drafts don't pay, and tries again now and then."""

from __future__ import annotations

ALLOWANCE = 0.008
"""Tokens that drafts may lose for every token of plain decoding, in the long run."""
MOST = 2.0
"""Tokens that they may lose at once."""
DEEPEST = -1.0
"""What a single draft can leave, however dear it was."""


class Breaker:
    """The credit of one sequence's drafts: what they brought, less what they cost, in tokens.

    Every step adds a little, so drafts that never come true are still tried, but rarely: after N steps they
    have cost at most `MOST + 1 + N * ALLOWANCE` tokens' time. What they cost is known before anything is
    drawn, and what they brought afterwards, so the choice to draft never looks at a token it could favour.
    """

    __slots__ = ("_credit",)

    def __init__(self, credit: float = MOST) -> None:
        self._credit = min(MOST, credit)

    @property
    def credit(self) -> float:
        """Tokens that drafts may lose now."""
        return self._credit

    def allows(self) -> bool:
        """Tell whether to draft in this step; called once a step."""
        self._credit = min(MOST, self._credit + ALLOWANCE)
        return self._credit > 0

    def note(self, kept: int, price: float) -> None:
        """Note that a draft brought `kept` tokens, for the time of `price` tokens."""
        self._credit = max(DEEPEST, min(MOST, self._credit + kept - price))
