"""Drafts that all fail: what the guesses of a real drafter cost where none of them comes true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from outrider.cache.base import Cache
from outrider.loop.draft.base import Ask, Drafter, Rows
from outrider.types import DraftTree

PREFIX = "failing:"
"""What stands before the name of the drafter whose guesses are spoilt."""


class FailingDrafter:
    """Proposes another drafter's trees with every token moved by half the vocabulary: hardly one is kept.

    Drafting costs what it costs that drafter, and the shapes of the trees are its own. It is told that
    nothing was kept. One that learns from the text, and not from what was kept, finds its guesses come true
    there and stays sure of them: nothing is worse for whoever decides how much to draft. The moved tokens
    carry no law: they were not drawn, so every rule stays exact.
    """

    def __init__(self, drafter: Drafter, vocabulary: int) -> None:
        """`vocabulary`: the target's V."""
        self._drafter, self._vocabulary = drafter, vocabulary
        self.name = PREFIX + drafter.name
        self.has_law, self.weighs_costs = drafter.has_law, drafter.weighs_costs
        self.speculates, self.observes = drafter.speculates, drafter.observes
        self.features, self.caches = drafter.features, drafter.caches

    def open(self, prompt: Sequence[int], tenant: str = "", *caches: Sequence[Cache]) -> Any:
        """Pass on."""
        return self._drafter.open(prompt, tenant, *caches)

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Return the other drafter's trees, spoilt."""
        move, size = self._vocabulary // 2, self._vocabulary
        return [
            replace(tree, tokens=tuple((token + move) % size for token in tree.tokens), laws=None)
            for tree in self._drafter.propose(asks)
        ]

    def observe(self, state: Any, tree: DraftTree, rows: Rows) -> None:
        """Pass on: the rows are those of the tree that was scored."""
        self._drafter.observe(state, tree, rows)

    def feed(self, state: Any, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        """Pass on: the text is the target's, whatever was drafted."""
        self._drafter.feed(state, start, tokens, hidden)

    def extend(self, state: Any, tokens: Sequence[int], kept: int) -> None:
        """Pass on that none of the other drafter's own tokens was kept, whatever was of the spoilt ones."""
        self._drafter.extend(state, tokens, 0)

    def close(self, state: Any) -> None:
        """Pass on."""
        self._drafter.close(state)
