"""Several drafters in one tree: a node holds what each of them guesses there, weighed against the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from outrider.loop.draft.base import Drafter, Rows
from outrider.loop.draft.guess import JOINED_WEIGHT, Guess, Guesser, join, record
from outrider.loop.draft.guessing import GuessingDrafter
from outrider.loop.draft.lm import relative_cost
from outrider.loop.draft.lm_tree import ModelTreeDrafter
from outrider.loop.draft.options import check_range, read_options
from outrider.loop.draft.rates import Rates
from outrider.models.base import LoadedModel, Target
from outrider.registry import DRAFTERS
from outrider.types import DraftTree

DEFAULT_PARTS = ("suffix", "recycle")


@dataclass(frozen=True)
class MergedOptions:
    """What can be set about the merged drafter; a value out of its range is an OptionError."""

    max_nodes: int = 63
    """Most nodes in one draft, below the budget asked for (at least 1)."""
    threshold: float = 0.01
    """Least estimated chance of being kept for a node to be drafted, however little it costs (0 to 1)."""

    def __post_init__(self) -> None:
        check_range("merged", "max_nodes", self.max_nodes, 1)
        check_range("merged", "threshold", self.threshold, 0, 1)


@dataclass(frozen=True)
class MergedModelOptions:
    """What can be set about the merged drafter with a draft model among its parts."""

    width: int = 2
    """Most nodes that one pass of the draft model continues, and most children it names (1 to 64)."""

    def __post_init__(self) -> None:
        check_range("merged", "width", self.width, 1, 64)


class MergedDrafter(GuessingDrafter):
    """Guesses of several drafters in one tree: shared prefixes once, the likeliest nodes of all."""

    takes_model: ClassVar[bool] = False
    takes_parts: ClassVar[bool] = True

    @classmethod
    def build(cls, target: Target, model: LoadedModel | None, options: dict[str, Any]) -> Drafter:
        """Merge the drafters that need nothing but the text and the target's rows."""
        return cls.merge(target, model, DEFAULT_PARTS, options)

    @classmethod
    def merge(
        cls, target: Target, model: LoadedModel | None, parts: Sequence[str], options: dict[str, Any]
    ) -> Drafter:
        """Make the drafter; `options` are the fields of `MergedOptions`, or of `MergedModelOptions`.

        OptionError for anything else.
        """
        kinds = [DRAFTERS.load(part) for part in parts]
        free = [kind.guesser() for kind in kinds if not kind.takes_model]
        guessers = free[0] if len(free) == 1 else MergedGuesses(free)
        if model is not None:
            width = read_options(MergedModelOptions, "merged", options).width
            cost = relative_cost(model.target, target)
            return ModelTreeDrafter(
                model.target, target.vocab_size, cost, width=width, name="merged", beside=guessers
            )
        read = read_options(MergedOptions, "merged", options)
        return cls("merged", guessers, max_nodes=read.max_nodes, threshold=read.threshold)


@dataclass(slots=True)
class MergedState:
    """One sequence: the states of the parts, and how well the merged estimates did."""

    parts: list[Any]
    rates: Rates = field(default_factory=partial(Rates, JOINED_WEIGHT))


class MergedGuesses:
    """Joins guessers: one list of guesses at each place, a token named by several standing there once.

    Each part tells chances by its own record; a token that several name takes the highest, and all chances
    at one place together are held below 1. That is a first estimate only. What is used is how often guesses
    of such an estimate, named by the same parts, came true in this sequence, so that what different parts
    say is comparable.
    """

    def __init__(self, parts: Sequence[Guesser]) -> None:
        self._parts = tuple(parts)
        self.observes = any(part.observes for part in parts)

    def open(self, prompt: Sequence[int]) -> MergedState:
        """Open every part."""
        return MergedState([part.open(prompt) for part in self._parts])

    def here(self, state: MergedState) -> tuple[Any, ...]:
        """Return every part's place at the end of the committed text."""
        return tuple(part.here(own) for part, own in zip(self._parts, state.parts, strict=True))

    def follow(self, state: MergedState, place: tuple[Any, ...], token: int) -> tuple[Any, ...]:
        """Return every part's place after one more token."""
        parts = zip(self._parts, state.parts, place, strict=True)
        return tuple(part.follow(own, at, token) for part, own, at in parts)

    def guesses(self, state: MergedState, place: tuple[Any, ...]) -> list[Guess]:
        """Return all parts' guesses, the likeliest first, each given that those before it are wrong."""
        return join(self._lists(state, place), state.rates)

    def observe(self, state: MergedState, tree: DraftTree, rows: Rows) -> None:
        """Show the rows to the parts that learn from them."""
        for part, own in zip(self._parts, state.parts, strict=True):
            if part.observes:
                part.observe(own, tree, rows)

    def extend(self, state: MergedState, token: int, guesses: Sequence[Guess] | None = None) -> None:
        """Note which guesses were right, and tell the parts."""
        lists = self._lists(state, self.here(state))
        record(state.rates, join(lists, state.rates) if guesses is None else guesses, token)
        for part, own, made in zip(self._parts, state.parts, lists, strict=True):
            part.extend(own, token, made)

    def settle(self, state: MergedState) -> None:
        """Settle every part."""
        for part, own in zip(self._parts, state.parts, strict=True):
            part.settle(own)

    def _lists(self, state: MergedState, place: tuple[Any, ...]) -> list[list[Guess]]:
        return [part.guesses(*at) for part, *at in zip(self._parts, state.parts, place, strict=True)]
