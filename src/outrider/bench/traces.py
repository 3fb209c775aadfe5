"""What a drafter proposed for each text, how sure it was, and what of it came true: enough to replay it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from outrider.cache.base import Cache
from outrider.loop.draft.base import Ask, Drafter, Rows
from outrider.types import DraftTree

RIGHT = "+"
"""Marks a node that came true."""
UNKNOWN = "?"
"""Stands for the chance of a node whose drafter tells none."""


@dataclass(frozen=True, slots=True)
class TracedDraft:
    """One draft: `at` tokens had been emitted when it was made."""

    at: int
    chances: tuple[float, ...] | None
    """What the drafter said of each node (`DraftTree.chances`); None where it says nothing."""
    right: tuple[bool, ...]
    """Whether the text went through each node, whether or not a pass held it."""

    def written(self) -> str:
        """Return it as one word for `at` and one for each node, as in `12 0.91+ 0.855+ 0.2`."""
        chances = [UNKNOWN] * len(self.right) if self.chances is None else [f"{c:.3g}" for c in self.chances]
        marks = (chance + RIGHT * right for chance, right in zip(chances, self.right, strict=True))
        return " ".join([str(self.at), *marks])

    @classmethod
    def read(cls, text: str) -> TracedDraft:
        """Return what `written` wrote; ValueError for anything else."""
        at, *nodes = text.split(" ")
        words = [node.removesuffix(RIGHT) for node in nodes]
        known = UNKNOWN not in words
        return cls(
            int(at),
            tuple(map(float, words)) if known else None,
            tuple(node.endswith(RIGHT) for node in nodes),
        )


@dataclass(frozen=True, slots=True)
class Trace:
    """A request: the tokens of its prompt and of its answer, and what was drafted on the way, in order."""

    prompt_tokens: int
    tokens: int
    drafts: tuple[TracedDraft, ...] = ()
    most: int | None = None
    """Tokens that it might have been answered with, where that was not the same for all."""


@dataclass(slots=True)
class Told:
    """What a `TracingDrafter` saw of one sequence."""

    state: Any
    """The drafter's own."""
    prompt_tokens: int
    drafts: list[tuple[int, DraftTree]] = field(default_factory=list)
    """How many tokens there were, prompt included, and what was then drafted; without laws."""


class TracingDrafter:
    """Another drafter, whose drafts are noted and whose asks are counted and timed."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self.name, self.has_law = drafter.name, drafter.has_law
        self.weighs_costs, self.observes = drafter.weighs_costs, drafter.observes
        self.speculates = drafter.speculates
        self.features, self.caches = drafter.features, drafter.caches
        self.asks = 0
        self.answered = 0
        """Asks that brought a draft of one node at least."""
        self.seconds = 0.0
        """Time that drafts took to make and to learn from."""
        self.told: list[Told] = []
        """In the order in which sequences were opened."""

    def open(self, prompt: Sequence[int], tenant: str = "", *caches: Sequence[Cache]) -> Told:
        """Pass on."""
        self.told.append(Told(self._drafter.open(prompt, tenant, *caches), len(prompt)))
        return self.told[-1]

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Pass on, and note what is drafted."""
        own = [replace(ask, state=ask.state.state) for ask in asks]
        start = time.perf_counter()
        trees = self._drafter.propose(own)
        self.seconds += time.perf_counter() - start
        self.asks += len(asks)
        for ask, tree in zip(asks, trees, strict=True):
            self.answered += len(tree) > 0
            # Laws are whole rows of the vocabulary: they are not kept.
            bare = DraftTree(tree.tokens, tree.parents, chances=tree.chances)
            ask.state.drafts.append((len(ask.tokens), bare))
        return trees

    def observe(self, state: Told, tree: DraftTree, rows: Rows) -> None:
        """Pass on, timed."""
        start = time.perf_counter()
        self._drafter.observe(state.state, tree, rows)
        self.seconds += time.perf_counter() - start

    def feed(self, state: Told, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        """Pass on."""
        self._drafter.feed(state.state, start, tokens, hidden)

    def extend(self, state: Told, tokens: Sequence[int], kept: int) -> None:
        """Pass on."""
        self._drafter.extend(state.state, tokens, kept)

    def close(self, state: Told) -> None:
        """Pass on."""
        self._drafter.close(state.state)

    def traces(self, answers: Sequence[Sequence[int]]) -> list[Trace]:
        """Return the trace of each sequence, given the tokens that each was answered with, in order."""
        assert len(answers) == len(self.told), "every sequence was opened once"
        return [
            Trace(
                told.prompt_tokens,
                len(answer),
                tuple(
                    TracedDraft(
                        length - told.prompt_tokens,
                        tree.chances,
                        came_true(tree, answer, length - told.prompt_tokens),
                    )
                    for length, tree in told.drafts
                ),
            )
            for told, answer in zip(self.told, answers, strict=True)
        ]


def came_true(tree: DraftTree, text: Sequence[int], at: int) -> tuple[bool, ...]:
    """Return for each node of a tree, drafted after `at` tokens of a text, whether the text goes through it.

    Of siblings that hold the same token it is the first.
    """
    right: list[bool] = []
    reached = 0
    for token, parent, depth in zip(tree.tokens, tree.parents, tree.depths(), strict=True):
        place = at + depth - 1
        follows = depth == reached + 1 and (parent < 0 or right[parent])
        right.append(follows and place < len(text) and text[place] == token)
        reached += right[-1]
    return tuple(right)
