"""Decides what the sequences of a pass may draft, from one measured latency curve."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.planner.breaker import Breaker, Breakers
from outrider.planner.calibration import Calibration
from outrider.planner.latency import Latency
from outrider.planner.plan import Plan

SMOOTHING = 0.1
"""What the newest drafts count for in the mean time that one takes."""
FIRST = 8
"""Drafts whose plain mean comes first."""
LONGEST = 4.0
"""A time of more than this many means counts as this many: something else ran."""


class Planner:
    """Makes the plan of every pass; learns from all sequences what drafts cost and what becomes of them."""

    def __init__(self, budget: int, latency: Latency | None = None) -> None:
        """`budget`: most draft nodes of one sequence; without a latency curve they count as free."""
        self.budget = budget
        self._latency = latency
        self._asks = 0
        self._milliseconds = 0.0
        self._breakers = Breakers()
        self._calibration = Calibration()

    @property
    def ask_milliseconds(self) -> float:
        """Time that one sequence's draft takes to make and to learn from, lately; 0 before the first."""
        return self._milliseconds

    @property
    def credit(self) -> float:
        """Tokens that the drafts of all sequences may lose now."""
        return self._breakers.credit

    def allowed(self, breakers: Sequence[Breaker]) -> list[bool]:
        """Tell which of the sequences that are ready to emit may draft; called once a pass.

        All may where nodes are free.
        """
        if self._latency is None:
            return [True] * len(breakers)
        self._calibration.rest(len(breakers))
        return self._breakers.allowed(breakers)

    def note(
        self,
        breaker: Breaker,
        price: float,
        kept: int,
        chances: Sequence[float] | None = None,
        right: Sequence[bool] = (),
    ) -> None:
        """Learn from one sequence's draft: it brought `kept` tokens for the time of `price` tokens.

        `chances [N]`: what the drafter said of the nodes that the pass held, None where it said nothing;
        `right [N]`: which of them were kept.
        """
        self._breakers.note(breaker, kept, price)
        if chances and self._latency is not None:
            self._calibration.learn(chances, right)

    def plan(self, contexts: Sequence[int], reading: int = 0) -> Plan | None:
        """Return the plan of a pass (see `Plan`); None where nodes are free, or nobody drafts."""
        if self._latency is None or not contexts:
            return None
        return Plan(self._latency, contexts, reading, self._calibration)

    def price_of_ask(self, plan: Plan | None) -> float:
        """Return what it costs in a pass to make one draft, in tokens; 0 where nodes are free."""
        return 0.0 if plan is None else plan.tokens(self._milliseconds)

    def note_asks(self, asks: int, milliseconds: float) -> None:
        """Note how long the drafter took for the asks of one step."""
        if asks == 0:
            return
        own = milliseconds / asks
        if self._asks >= FIRST:
            own = min(own, LONGEST * self._milliseconds)
        self._asks += 1
        self._milliseconds += max(SMOOTHING, 1 / self._asks) * (own - self._milliseconds)
