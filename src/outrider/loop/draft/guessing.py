"""A drafter made of guessers: one tree for each ask, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from outrider.cache.base import Cache, CacheKind
from outrider.loop.draft.base import Ask, Rows
from outrider.loop.draft.guess import Grown, Guesser, best_first
from outrider.loop.draft.mixed import MixedGuesses, MixedState
from outrider.types import DraftTree

WAITING = 64
"""Most committed tokens that the guessers are told of with the next draft."""


@dataclass(slots=True)
class GuessingState:
    """One sequence: what is known of it, and how its last tree grew."""

    known: MixedState
    grown: Grown | None = None
    waiting: list[int] = field(default_factory=list)
    """Tokens that the guessers have not been told of: nobody has asked since."""


class GuessingDrafter:
    """Grows trees of guessers' guesses, as many nodes as are worth their time.

    Its guesses are point masses that are chosen before anything is drawn, so every rule stays exact.
    """

    has_law = False
    weighs_costs = True
    speculates = True
    features: tuple[int, ...] = ()
    caches: tuple[CacheKind, ...] = ()

    def __init__(self, name: str, guessers: Sequence[Guesser], *, max_nodes: int, threshold: float) -> None:
        self._guesses = MixedGuesses(guessers)
        self.name, self.observes = name, self._guesses.observes
        self._max_nodes, self._threshold = max_nodes, threshold

    def open(self, prompt: Sequence[int], tenant: str = "", caches: Sequence[Cache] = ()) -> GuessingState:
        """Return what the guessers know of a new sequence."""
        return GuessingState(self._guesses.open(prompt, tenant))

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Return a tree for each ask, a chain where siblings are not allowed."""
        for ask in asks:
            self.catch_up(ask.state)
        return [self._draft(ask.state, ask) for ask in asks]

    def observe(self, state: GuessingState, tree: DraftTree, rows: Rows) -> None:
        """Show the guessers the target's rows."""
        self.catch_up(state)
        self._guesses.observe(state.known, tree, rows)

    def feed(self, state: Any, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        """Learn nothing."""

    def extend(self, state: GuessingState, tokens: Sequence[int], kept: int) -> None:
        """Tell the guessers what was committed, and note which of their guesses were right.

        Those that were not made for a draft are made now, where there was one: all of a step's tokens are
        then observations. Where nobody asked for a draft, nothing is worked out for the record, and the
        guessers hear of the tokens with the next draft, or when there are many.
        """
        grown = state.grown
        if grown is None:
            state.waiting += tokens
            if len(state.waiting) >= WAITING:
                self.catch_up(state)
            return
        assert not state.waiting, "a draft begins at the end of the text"
        node: int | None = -1
        for token in tokens:
            made = None
            if node is not None:
                if node + 1 < len(grown.guesses):
                    made = grown.guesses[node + 1]
                node = grown.child(node, token)
            self._guesses.extend(state.known, token, made)
        self._guesses.settle(state.known)
        state.grown = None

    def close(self, state: GuessingState) -> None:
        """Do nothing: the state holds plain memory only."""

    def catch_up(self, state: GuessingState) -> None:
        """Tell the guessers of the tokens that wait."""
        for token in state.waiting:
            self._guesses.move(state.known, token)
        state.waiting.clear()

    def _draft(self, state: GuessingState, ask: Ask) -> DraftTree:
        tree, state.grown = best_first(
            self._guesses,
            state.known,
            min(ask.budget, self._max_nodes),
            branch=ask.branch,
            floor=self._threshold,
            costs=ask.costs,
        )
        return tree
