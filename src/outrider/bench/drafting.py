"""Drafters as the simulation sees them: how much they draft, how sure, what comes true, how long it takes."""

from __future__ import annotations

import itertools
import operator
import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from outrider.bench.traces import Trace, TracedDraft
from outrider.loop.draft.worth import best_count, worth_a_node, worth_a_pass
from outrider.planner.latency import Latency


@dataclass(frozen=True, slots=True)
class Asking:
    """One sequence's request for a draft (see `Ask`)."""

    job: int
    at: int
    """Tokens emitted so far."""
    cached: int
    nodes: int
    """Most nodes wanted, 1 at least."""
    costs: Sequence[float]
    """`[nodes + 1]`, as `Plan.costs` tells; empty where nodes are free."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What is drafted: nodes in the order of a `DraftTree`, a parent before its children."""

    chances: Sequence[float] | None
    """What the drafter says of each; None where it says nothing, and nobody cuts it."""
    right: Sequence[bool]
    """Which of them come true."""


class Drafting(Protocol):
    """A drafter, as far as the engine's time depends on it."""

    @property
    def budget(self) -> int:
        """Most nodes of one sequence."""
        ...

    @property
    def free(self) -> bool:
        """True where nodes count as free: nothing is cut, and no breaker stops it."""
        ...

    def answer(self, asks: Sequence[Asking], chance: random.Random) -> tuple[list[Draft], float]:
        """Return a draft for each ask, and the milliseconds that all of them take to make."""
        ...


@dataclass(frozen=True, slots=True)
class Chains:
    """Chains whose tokens are kept with given chances; the drafter knows these chances and nothing more."""

    alphas: Sequence[float]
    """Chance that a token is kept where all before it were, by depth; the last holds for all deeper ones."""
    budget: int
    share: float = 1.0
    """Chance that it has a guess at all."""
    model: Latency | None = None
    """The curve of its model, of which it takes a pass for each depth; None where it needs none."""
    cost: float = 0.0
    """Time of one pass of its model over one of the target."""
    free: bool = False

    def answer(self, asks: Sequence[Asking], chance: random.Random) -> tuple[list[Draft], float]:
        """Draft as `SuffixDrafter` does, or, with a model, as `ModelDrafter`, its passes shared by all."""
        passes = [0] * len(asks)
        drafts = []
        for index, ask in enumerate(asks):
            chances: list[float] = []
            if chance.random() < self.share:
                chances, passes[index] = self._chances(ask)
            kept = list(itertools.takewhile(lambda rate: chance.random() < rate, chances))
            survivals = tuple(itertools.accumulate(chances, operator.mul))
            right = [depth < len(kept) for depth in range(len(chances))]
            drafts.append(Draft(survivals, right))
        return drafts, self._milliseconds(asks, passes)

    def _chances(self, ask: Asking) -> tuple[list[float], int]:
        """Return α of each node that one ask is answered with, and the passes of the draft model for it."""
        every = [self.alphas[min(depth, len(self.alphas) - 1)] for depth in range(ask.nodes)]
        if self.model is None:
            return every[: best_count(list(itertools.accumulate(every, operator.mul)), ask.costs)], 0
        taken = 0
        while taken < len(every) and worth_a_pass(every[:taken], ask.costs, self.cost):
            if not worth_a_node(every[: taken + 1], ask.costs, self.cost):
                return every[:taken], taken + 1
            taken += 1
        return every[:taken], taken

    def _milliseconds(self, asks: Sequence[Asking], passes: Sequence[int]) -> float:
        if self.model is None:
            return 0.0
        took = 0.0
        for depth in range(max(passes, default=0)):
            going = [ask for ask, own in zip(asks, passes, strict=True) if own > depth]
            looked = sum(ask.cached for ask in going)
            took += self.model.at(len(going), looked, looked)
        return took


@dataclass(frozen=True, slots=True)
class Replayed:
    """Drafts that were traced, each request those of its own trace.

    At a place of the text where nothing was drafted the nearest draft stands in. Requests beyond the traces
    begin with the first one again.
    """

    traces: Sequence[Trace]
    budget: int
    ask_milliseconds: float = 0.0
    """Time that one draft takes to make and to learn from."""
    free: bool = False

    def answer(self, asks: Sequence[Asking], chance: random.Random) -> tuple[list[Draft], float]:
        """Replay a draft for each ask, cut by its costs as `best_first` does."""
        return [self._draft(ask) for ask in asks], self.ask_milliseconds * len(asks)

    def _draft(self, ask: Asking) -> Draft:
        traced = self._nearest(self.traces[ask.job % len(self.traces)].drafts, ask.at)
        if traced is None:
            return Draft((), ())
        right = traced.right[: ask.nodes]
        if traced.chances is None:
            return Draft(None, right)
        chances = traced.chances[: ask.nodes]
        count = best_count(chances, ask.costs)
        return Draft(chances[:count], right[:count])

    @staticmethod
    def _nearest(drafts: Sequence[TracedDraft], at: int) -> TracedDraft | None:
        """Return the draft made at a place of the text, else the nearest one, of two the later."""
        if not drafts:
            return None
        after = bisect_left(drafts, at, key=lambda draft: draft.at)
        near = drafts[max(after - 1, 0) : after + 1]
        return min(near, key=lambda draft: (abs(draft.at - at), -draft.at))
