"""Decides what the sequences of a pass may draft, from one measured latency curve."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.planner.breaker import Breaker
from outrider.planner.latency import Latency
from outrider.planner.plan import Plan

SMOOTHING = 0.1
"""What the newest drafts count for in the mean time that one takes."""
FIRST = 8
"""Drafts whose plain mean comes first."""
LONGEST = 4.0
"""A time of more than this many means counts as this many: something else ran."""


class Planner:
    """Makes the plan of every pass, and learns what asking the drafter costs."""

    def __init__(self, budget: int, latency: Latency | None = None) -> None:
        """`budget`: most draft nodes of one sequence; without a latency curve they count as free."""
        self.budget = budget
        self._latency = latency
        self._asks = 0
        self._milliseconds = 0.0
        self._all = Breaker()

    @property
    def ask_milliseconds(self) -> float:
        """Time that one sequence's draft takes to make and to learn from, lately; 0 before the first."""
        return self._milliseconds

    def breaker(self) -> Breaker:
        """Return the breaker of a new sequence; where the drafts of all fail it begins without credit."""
        return Breaker(max(self._all.credit, 0.0))

    def note(self, breaker: Breaker, kept: int, price: float) -> None:
        """Book what a sequence's draft brought and cost, for it and for those that come after."""
        breaker.note(kept, price)
        self._all.note(kept, price)

    def plan(self, contexts: Sequence[int], reading: int = 0) -> Plan | None:
        """Return the plan of a pass (see `Plan`); None where nodes are free, or nobody drafts."""
        return Plan(self._latency, contexts, reading) if self._latency and contexts else None

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
