"""The drafter of every draft is chosen anew: the one that expects to bring most for what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor

from outrider.cache.base import Cache
from outrider.loop.draft.authors import authors_of
from outrider.loop.draft.base import Ask, Drafter, Rows
from outrider.loop.draft.merged import DEFAULT_PARTS
from outrider.loop.draft.options import no_options
from outrider.models.base import LoadedModel, Target
from outrider.registry import DRAFTERS
from outrider.types import DraftTree

FIRST = 1.0
"""Tokens that a drafter is taken to bring before it has been asked."""
SMOOTHING = 0.2
"""What the newest draft counts for in what a drafter usually brings."""
FORGETTING = 0.02
"""How much of that is forgotten with every step in which it is not asked."""


@dataclass(slots=True)
class AutoState:
    """One sequence: the states of the parts, and the tokens that a draft of each usually brings."""

    parts: list[Any]
    usual: list[float]
    chosen: int = 0
    """Which part made the last draft."""


class AutoDrafter:
    """Asks its parts in turn, the cheapest first, until the best draft so far is more than the next usually
    brings; that draft is taken.

    What a draft brings is the tokens it expects to be kept, less those that could have been had in the time
    of its nodes and of its own passes. Guesses without a draw are weighed by their chances. One that draws is
    chosen by what it brought before, and what it then draws stands: whether a draft is used never depends on
    a token that was drawn for it, so every rule stays exact.
    """

    name = "auto"
    weighs_costs = True
    speculates = True
    takes_model: ClassVar[bool] = False
    takes_parts: ClassVar[bool] = True

    def __init__(self, parts: Sequence[Drafter]) -> None:
        """`parts`: different drafters, the cheapest first; each tells the chances of its nodes."""
        self._parts = tuple(parts)
        self.has_law = any(part.has_law for part in self._parts)
        self.observes = any(part.observes for part in self._parts)
        self.caches = tuple(kind for part in self._parts for kind in part.caches)
        self.features = tuple(dict.fromkeys(layer for part in self._parts for layer in part.features))

    @classmethod
    def build(cls, target: Target, model: LoadedModel | None, options: dict[str, Any]) -> AutoDrafter:
        """Choose among the drafters that need nothing but the text and the target's rows."""
        return cls.merge(target, model, DEFAULT_PARTS, options)

    @classmethod
    def merge(
        cls, target: Target, model: LoadedModel | None, parts: Sequence[str], options: dict[str, Any]
    ) -> AutoDrafter:
        """Choose among these; any option is an OptionError, since there is nothing to set."""
        no_options("auto", options)
        kinds = [DRAFTERS.load(part) for part in parts]
        return cls([kind.build(target, model if kind.takes_model else None, {}) for kind in kinds])

    @property
    def parts(self) -> Sequence[Drafter]:
        """Those that it chooses among."""
        return self._parts

    def open(self, prompt: Sequence[int], tenant: str = "", caches: Sequence[Cache] = ()) -> AutoState:
        """Open every part, each with its own of the caches."""
        states, rest = [], list(caches)
        for part in self._parts:
            own, rest = rest[: len(part.caches)], rest[len(part.caches) :]
            states.append(part.open(prompt, tenant, own) if own else part.open(prompt, tenant))
        return AutoState(states, [FIRST] * len(self._parts))

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Return for each ask the draft of the part that is chosen."""
        best = [DraftTree()] * len(asks)
        brings = [0.0] * len(asks)
        for number, part in enumerate(self._parts):
            asking = []
            for index, ask in enumerate(asks):
                usual = ask.state.usual
                if brings[index] < usual[number]:
                    asking.append(index)
                else:
                    usual[number] += FORGETTING * (FIRST - usual[number])
            own = [replace(asks[index], state=asks[index].state.parts[number]) for index in asking]
            for index, tree in zip(asking, part.propose(own) if own else (), strict=True):
                found = _brings(tree, asks[index], getattr(part, "cost", 0.0))
                usual = asks[index].state.usual
                usual[number] += SMOOTHING * (found - usual[number])
                if part.has_law or found > brings[index]:
                    best[index], brings[index] = tree, found
                    asks[index].state.chosen = number
        return best

    def authors(self, state: AutoState, tree: DraftTree) -> Sequence[str]:
        """Return who made the draft, as far as the part that was chosen knows."""
        return authors_of(self._parts[state.chosen], state.parts[state.chosen], tree)

    def observe(self, state: AutoState, tree: DraftTree, rows: Rows) -> None:
        """Show the rows to the parts that learn from them."""
        for part, own in zip(self._parts, state.parts, strict=True):
            if part.observes:
                part.observe(own, tree, rows)

    def feed(self, state: AutoState, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        """Give every part the hidden states that it learns from."""
        for part, own in zip(self._parts, state.parts, strict=True):
            if part.features:
                chosen = [self.features.index(layer) for layer in part.features]
                part.feed(own, start, tokens, hidden if part.features == self.features else hidden[chosen])

    def extend(self, state: AutoState, tokens: Sequence[int], kept: int) -> None:
        """Tell every part what was committed, whoever drafted it."""
        for part, own in zip(self._parts, state.parts, strict=True):
            part.extend(own, tokens, kept)

    def close(self, state: AutoState) -> None:
        """Close every part."""
        for part, own in zip(self._parts, state.parts, strict=True):
            part.close(own)


def _brings(tree: DraftTree, ask: Ask, cost: float) -> float:
    """Return the tokens that a draft brings, less those that its time would have brought.

    `cost`: the time of one pass of the drafter over one of the target; it makes one for each level and one
    to see that it is enough.
    """
    expected = sum(tree.chances or ())
    price = ask.costs[len(tree)] - 1 if ask.costs else 0.0
    return expected - price - (cost * (1 + max(tree.depths(), default=0)) if cost else 0.0)
