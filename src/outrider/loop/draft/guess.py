"""Guessing one token at a time, from a place in the text: what trees without a draw are made of."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from outrider.loop.draft.base import Rows
from outrider.loop.draft.rates import Rates
from outrider.loop.draft.worth import best_count, could_pay
from outrider.types import DraftTree

CERTAIN = 0.98
"""Most that the chances of all guesses at one place sum to."""
JOINED_WEIGHT = 48.0
"""How many observations the first estimate of a joined guess counts for: the parts' own records are in it."""
BINS = 12
"""Bins of estimated chances whose outcomes are told apart."""
LAST_RANK = 2
"""Guesses from this rank on share one record."""


class Guess(NamedTuple):
    """One token that may come next."""

    token: int
    chance: float
    """Estimated chance that it does; those of all guesses at one place sum to `CERTAIN` at most."""
    kind: Hashable
    """What the estimate is filed under."""


class Guesser(Protocol):
    """Knows what may follow any place: the end of the committed text, and what is guessed to come after it.

    Guesses are chosen without a draw. What it knows of a sequence is in its state; a place is small and never
    changed, so that every node of a tree can have its own.
    """

    observes: bool
    """True when it learns from the target's own rows."""

    @property
    def priors(self) -> Sequence[float]:
        """Chance of each kind of guess before anything was learned; kinds are numbers from 0 up."""
        ...

    def open(self, prompt: Sequence[int], tenant: str = "") -> Any:
        """Return the state of a new sequence whose committed text is `prompt`."""
        ...

    def here(self, state: Any) -> Any:
        """Return the place at the end of the committed text."""
        ...

    def follow(self, state: Any, place: Any, token: int) -> Any:
        """Return the place after `token`, coming from `place`."""
        ...

    def named(self, state: Any, place: Any) -> list[tuple[int, int]]:
        """Return different tokens that may come next, the likeliest first, each with its kind."""
        ...

    def observe(self, state: Any, tree: DraftTree, rows: Rows) -> None:
        """Look at the target's rows for the last draft; they may be used once `settle` is called."""
        ...

    def extend(self, state: Any, token: int) -> None:
        """Learn one committed token."""
        ...

    def settle(self, state: Any) -> None:
        """Take over what was observed, now that all tokens of the step have been learned."""
        ...


class Weighed(Protocol):
    """Guesses with their chances, at any place."""

    def here(self, state: Any) -> Any:
        """Return the place at the end of the committed text."""
        ...

    def follow(self, state: Any, place: Any, token: int) -> Any:
        """Return the place after `token`, coming from `place`."""
        ...

    def guesses(self, state: Any, place: Any) -> list[Guess]:
        """Return what may come next, different tokens."""
        ...


@dataclass(frozen=True, slots=True)
class Grown:
    """A tree as it grew: all nodes that were taken, and the guesses at those that were looked into."""

    tokens: list[int]
    parents: list[int]
    survivals: list[float]
    guesses: list[list[Guess]]
    """First those after the committed text, then those after each node in turn, as far as they were made."""

    def first(self, count: int) -> DraftTree:
        """Return the tree of the first `count` nodes."""
        return DraftTree(
            tuple(self.tokens[:count]), tuple(self.parents[:count]), chances=tuple(self.survivals[:count])
        )

    def child(self, node: int, token: int) -> int | None:
        """Return the child of a node (−1: of the committed text) that holds a token; None without one."""
        for child, parent in enumerate(self.parents):
            if parent == node and self.tokens[child] == token:
                return child
        return None


def best_first(
    weighed: Weighed, state: Any, budget: int, *, branch: bool, floor: float, costs: Sequence[float]
) -> tuple[DraftTree, Grown]:
    """Return the tree of at most `budget` nodes that are most likely kept, cut where more do not pay.

    Nodes are taken in order of their estimated survival, the product of the chances on their path; those
    below `floor` never. Without `branch` every node has one child at most, the likeliest. The chances are
    known before any token is drawn and guesses are point masses, so the choice is exact under every rule.
    Also returned is how the tree grew, from which it is learned what was right.
    """
    tokens: list[int] = []
    parents: list[int] = []
    survivals: list[float] = []
    made: list[list[Guess]] = []
    reachable: list[tuple[float, int, int, int, Any]] = []
    pop, push = heapq.heappop, heapq.heappush
    named, expected, best = 0, 1.0, 1.0
    place, node, survival = weighed.here(state), -1, 1.0
    while True:
        guesses = weighed.guesses(state, place)
        made.append(guesses)
        if guesses and not branch:
            guesses = [max(guesses, key=lambda guess: guess.chance)]
        for token, chance, _ in guesses:
            chance *= survival
            if chance >= floor:
                push(reachable, (-chance, named, token, node, place))
                named += 1
        if not reachable:
            break
        negative, _, token, parent, place = pop(reachable)
        survival, node = -negative, len(tokens)
        if costs:
            if not could_pay(survival, expected, best, node, costs):
                break
            expected += survival
            best = max(best, expected / costs[node + 1])
        tokens.append(token)
        parents.append(parent)
        survivals.append(survival)
        if len(tokens) == budget:
            break
        place = weighed.follow(state, place, token)
    grown = Grown(tokens, parents, survivals, made)
    return grown.first(best_count(survivals, costs)), grown


def join(lists: Sequence[Sequence[Guess]], rates: Rates) -> list[Guess]:
    """Return the guesses of several for one place as one list, the likeliest first.

    A token that several name takes the highest of their chances, and all chances together are held below 1.
    That is a first estimate only: what is used is how often guesses of such an estimate, named by the same
    ones, came true where those before them were wrong, so that what different ones say is comparable.
    """
    named: dict[int, tuple[float, int]] = {}
    for index, guesses in enumerate(lists):
        for token, chance, _ in guesses:
            other, by = named.get(token, (0.0, 0))
            named[token] = max(other, chance), by | 1 << index
    ranked = sorted(named.items(), key=lambda item: -item[1][0])
    scale = min(1.0, CERTAIN / max(sum(chance for chance, _ in named.values()), CERTAIN))
    joined, before, left = [], 1.0, 1.0
    for rank, (token, (chance, by)) in enumerate(ranked):
        chance *= scale
        given = chance / before
        before -= chance
        kind = (min(rank, LAST_RANK), by, int(BINS * given))
        chance = left * rates.rate(kind, given)
        left -= chance
        joined.append(Guess(token, chance, kind))
    return joined


def record(rates: Rates, guesses: Sequence[Guess], token: int) -> None:
    """Tell `rates` which of the guesses for a position were tried, now that its token is known."""
    for guess in guesses:
        hit = guess.token == token
        rates.record(guess.kind, hit)
        if hit:
            break
