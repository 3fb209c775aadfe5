"""A drafter made of a guesser: one tree for each ask, best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outrider.loop.draft.base import Ask, Rows
from outrider.loop.draft.guess import Guesser, best_first
from outrider.types import DraftTree


class GuessingDrafter:
    """Grows trees of a guesser's guesses, as many nodes as are worth their time.

    Its guesses are point masses that are chosen before anything is drawn, so every rule stays exact.
    """

    has_law = False
    weighs_costs = True
    speculates = True

    def __init__(self, name: str, guesser: Guesser, *, max_nodes: int, threshold: float) -> None:
        self.name, self.observes = name, guesser.observes
        self._guesser, self._max_nodes, self._threshold = guesser, max_nodes, threshold

    def open(self, prompt: Sequence[int]) -> Any:
        """Return the guesser's state."""
        return self._guesser.open(prompt)

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Return a tree for each ask, a chain where siblings are not allowed."""
        return [
            best_first(
                self._guesser,
                ask.state,
                min(ask.budget, self._max_nodes),
                branch=ask.branch,
                floor=self._threshold,
                costs=ask.costs,
            )
            for ask in asks
        ]

    def observe(self, state: Any, tree: DraftTree, rows: Rows) -> None:
        """Show the guesser the target's rows."""
        self._guesser.observe(state, tree, rows)

    def extend(self, state: Any, tokens: Sequence[int], kept: int) -> None:
        """Tell the guesser what was committed, drafted or not."""
        for token in tokens:
            self._guesser.extend(state, token)
        self._guesser.settle(state)

    def close(self, state: Any) -> None:
        """Do nothing: the state holds plain memory only."""
