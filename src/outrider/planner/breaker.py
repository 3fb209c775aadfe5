"""Stops drafts that don't pay, of one sequence or of all, and tries again now and then."""

from __future__ import annotations

from collections.abc import Sequence

ALLOWANCE = 0.008
"""Tokens that drafts may lose for every token of plain decoding, in the long run, all of them together."""
MOST = 3.0
"""Credit that is kept at most: tokens that drafts may lose at once."""
START = 2.0
"""Credit of a new sequence, and what waiting brings back at most."""
DEEPEST = -1.0
"""What a single draft can leave, however dear it was."""
STAKE = 0.25
"""Tokens that a draft on the credit of all is expected to lose, when it is decided how many such are made."""


class Breaker:
    """The credit of one sequence's drafts: what they brought, less what they cost, in tokens."""

    __slots__ = ("_credit",)

    def __init__(self) -> None:
        self._credit = START

    @property
    def credit(self) -> float:
        """Tokens that drafts may lose now."""
        return self._credit

    def rest(self) -> None:
        """Note a step: a little credit comes back, up to what a new sequence has."""
        if self._credit < START:
            self._credit = min(START, self._credit + ALLOWANCE)

    def note(self, kept: int, price: float) -> None:
        """Note that a draft brought `kept` tokens, for the time of `price` tokens."""
        self._credit = max(DEEPEST, min(MOST, self._credit + kept - price))


class Breakers:
    """Decides who may draft: sequences whose drafts have paid, and a few others on the credit of all.

    Many sequences that each try for themselves lose together what none of them may lose alone. So there is
    one more account, of all drafts of an engine, and a sequence that has gained nothing yet drafts only while
    that has credit. In N tokens, drafts that never come true cost the time of `MOST` + N · `ALLOWANCE` and of
    what is under way when the credit ends, however many sequences share them. What a draft costs is known
    before anything is drawn, and what it brought afterwards, so the choice to draft never looks at a token
    that it could favour.
    """

    __slots__ = ("_credit",)

    def __init__(self) -> None:
        self._credit = MOST

    @property
    def credit(self) -> float:
        """Tokens that the drafts of all sequences may lose now."""
        return self._credit

    def allowed(self, breakers: Sequence[Breaker]) -> list[bool]:
        """Tell which of the sequences of a step may draft; called once a step."""
        self._credit = min(MOST, self._credit + ALLOWANCE * len(breakers))
        left = self._credit
        allowed = []
        for breaker in breakers:
            breaker.rest()
            proven = breaker.credit > START
            tries = not proven and breaker.credit > 0 and left > 0
            left -= STAKE * tries
            allowed.append(proven or tries)
        return allowed

    def note(self, breaker: Breaker, kept: int, price: float) -> None:
        """Book what a sequence's draft brought and cost, for it and for all."""
        breaker.note(kept, price)
        self._credit = max(DEEPEST, min(MOST, self._credit + kept - price))
