"""Guessing one token at a time, from a place in the text: what trees without a draw are made of."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from outrider.loop.draft.base import Rows
from outrider.loop.draft.rates import Rates
from outrider.loop.draft.worth import best_count
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
    """Estimated chance that it does, given that the guesses before it are wrong."""
    kind: Hashable
    """What the estimate is filed under."""


class Guesser(Protocol):
    """Knows what may follow any place: the end of the committed text, and what is guessed to come after it.

    Guesses are chosen without a draw. What it knows of a sequence is in its state; a place is small and never
    changed, so that every node of a tree can have its own.
    """

    observes: bool
    """True when it learns from the target's own rows."""

    def open(self, prompt: Sequence[int]) -> Any:
        """Return the state of a new sequence whose committed text is `prompt`."""
        ...

    def here(self, state: Any) -> Any:
        """Return the place at the end of the committed text."""
        ...

    def follow(self, state: Any, place: Any, token: int) -> Any:
        """Return the place after `token`, coming from `place`."""
        ...

    def guesses(self, state: Any, place: Any) -> list[Guess]:
        """Return what may come next, different tokens, in the order in which they are tried."""
        ...

    def observe(self, state: Any, tree: DraftTree, rows: Rows) -> None:
        """Look at the target's rows for the last draft; they may be used once `settle` is called."""
        ...

    def extend(self, state: Any, token: int, guesses: Sequence[Guess] | None = None) -> None:
        """Learn one committed token; `guesses`: those for its position, where they have been made already."""
        ...

    def settle(self, state: Any) -> None:
        """Take over what was observed, now that all tokens of the step have been learned."""
        ...


def best_first(
    guesser: Guesser, state: Any, budget: int, *, branch: bool, floor: float, costs: Sequence[float]
) -> DraftTree:
    """Return the tree of at most `budget` nodes that are most likely kept, cut where more do not pay.

    Nodes are taken in order of their estimated survival, the product of the chances on their path; those
    below `floor` never. Without `branch` every node has one child at most, the likeliest. The chances are
    known before any token is drawn and guesses are point masses, so the choice is exact under every rule.
    """
    parents: list[int] = []
    tokens: list[int] = []
    survivals: list[float] = []
    reachable: list[tuple[float, int, int, int, Any]] = []
    named = 0
    place, node, survival = guesser.here(state), -1, 1.0
    while True:
        left, found = survival, []
        for guess in guesser.guesses(state, place):
            chance = left * guess.chance
            left -= chance
            if chance >= floor:
                found.append((-chance, guess.token))
        if not branch and found:
            found = [min(found, key=lambda item: item[0])]
        for negative, token in found:
            heapq.heappush(reachable, (negative, named, token, node, place))
            named += 1
        if not reachable or len(tokens) == budget:
            break
        negative, _, token, parent, place = heapq.heappop(reachable)
        node, survival = len(tokens), -negative
        tokens.append(token)
        parents.append(parent)
        survivals.append(survival)
        if len(tokens) < budget:
            place = guesser.follow(state, place, token)
    count = best_count(survivals, costs)
    return DraftTree(tuple(tokens[:count]), tuple(parents[:count]))


def join(lists: Sequence[Sequence[Guess]], rates: Rates) -> list[Guess]:
    """Return the guesses of several parts for one place as one list, the likeliest first.

    A token that several parts name takes the highest of their chances, and all chances together are held
    below 1. That is a first estimate only: what is used is how often guesses of such an estimate, named by
    the same parts, came true, so that what different parts say is comparable.
    """
    named: dict[int, tuple[float, int]] = {}
    for index, guesses in enumerate(lists):
        left = 1.0
        for guess in guesses:
            chance = left * guess.chance
            left -= chance
            other, by = named.get(guess.token, (0.0, 0))
            named[guess.token] = max(other, chance), by | 1 << index
    ranked = sorted(named.items(), key=lambda item: -item[1][0])
    scale = min(1.0, CERTAIN / max(sum(chance for chance, _ in named.values()), CERTAIN))
    joined, left = [], 1.0
    for rank, (token, (chance, by)) in enumerate(ranked):
        chance *= scale
        given = chance / left
        kind = (min(rank, LAST_RANK), by, int(BINS * given))
        joined.append(Guess(token, rates.rate(kind, given), kind))
        left -= chance
    return joined


def record(rates: Rates, guesses: Sequence[Guess], token: int) -> None:
    """Tell `rates` which of the guesses for a position were tried, now that its token is known."""
    for guess in guesses:
        hit = guess.token == token
        rates.record(guess.kind, hit)
        if hit:
            break
