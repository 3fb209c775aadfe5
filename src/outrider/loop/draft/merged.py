"""Several drafters in one tree: a node holds what each of them guesses there, weighed against the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from outrider.loop.draft.base import Drafter
from outrider.loop.draft.guessing import GuessingDrafter
from outrider.loop.draft.mixed import MixedGuesses
from outrider.loop.draft.options import check_range, read_options
from outrider.models.base import LoadedModel, Target
from outrider.registry import DRAFTERS

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
        drafting = next((kind for kind in kinds if kind.takes_model), None)
        if drafting is not None:
            width = read_options(MergedModelOptions, "merged", options).width
            made: Drafter = drafting.beside(target, model, MixedGuesses(free), width=width, name="merged")
            return made
        read = read_options(MergedOptions, "merged", options)
        return cls("merged", free, max_nodes=read.max_nodes, threshold=read.threshold)
