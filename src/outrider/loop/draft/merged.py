"""Several drafters in one tree: a node holds what each of them guesses there, weighed against the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from outrider.loop.draft.base import Drafter
from outrider.loop.draft.guess import Guesser
from outrider.loop.draft.guessing import GuessingDrafter, GuessingState
from outrider.loop.draft.mixed import MixedGuesses
from outrider.loop.draft.options import check_range, read_options
from outrider.models.base import LoadedModel, Target
from outrider.registry import DRAFTERS
from outrider.types import DraftTree

DEFAULT_PARTS = ("suffix", "recycle")
"""The drafters that need nothing but the text and the target's rows."""


@dataclass(frozen=True)
class MergedOptions:
    """What can be set about the merged drafter; a value out of its range is an OptionError."""

    max_nodes: int = 63
    """Most nodes in one draft, below the budget asked for (at least 1)."""
    threshold: float = 0.003
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

    def __init__(self, guessers: Mapping[str, Guesser], *, max_nodes: int, threshold: float) -> None:
        """`guessers`: those whose guesses are merged, by the names of their drafters."""
        super().__init__("merged", list(guessers.values()), max_nodes=max_nodes, threshold=threshold)
        self._names = list(guessers)

    def authors(self, state: GuessingState, tree: DraftTree) -> Sequence[str]:
        """Return which of the drafters named each node; "merged" for one that none did (a forced token)."""
        found, grown, place = list[str](), state.grown, {-1: -1}
        for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
            before = place.get(parent)
            child = None if grown is None or before is None else grown.child(before, token)
            by = [self.name]
            if grown is not None and before is not None and child is not None:
                place[node] = child
                kind = next(guess.kind for guess in grown.guesses[before + 1] if guess.token == token)
                by = [self._names[part] for part in self._guesses.parts_of(kind)]
            found.append("+".join(by))
        return found

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
        free = {name: kind.guesser() for name, kind in zip(parts, kinds, strict=True) if not kind.takes_model}
        drafting = next((kind for kind in kinds if kind.takes_model), None)
        if drafting is not None:
            width = read_options(MergedModelOptions, "merged", options).width
            made: Drafter = drafting.beside(
                target, model, MixedGuesses(list(free.values())), width=width, name="merged"
            )
            return made
        read = read_options(MergedOptions, "merged", options)
        return cls(free, max_nodes=read.max_nodes, threshold=read.threshold)
