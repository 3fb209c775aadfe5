"""Guesses from the target's own logits of earlier passes (Token Recycling); needs no model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from outrider.loop.draft.guess import Guesser
from outrider.loop.draft.guessing import GuessingDrafter
from outrider.loop.draft.options import check_range, read_options
from outrider.loop.draft.recent import RecentSuccessors
from outrider.models.base import LoadedModel, Target


@dataclass(frozen=True)
class RecycleOptions:
    """What can be set about the recycle drafter; a value out of its range is an OptionError."""

    successors: int = 4
    """Most successors that are kept of a token (at least 1)."""
    max_nodes: int = 63
    """Most nodes in one draft, below the budget asked for (at least 1)."""
    threshold: float = 0.01
    """Least estimated chance of being kept for a node to be drafted, however little it costs (0 to 1)."""

    shared: bool = True
    """Also ask what was seen in the same tenant's other sequences. Where False, drafts depend on their own
    alone."""

    def __post_init__(self) -> None:
        check_range("recycle", "successors", self.successors, 1)
        check_range("recycle", "max_nodes", self.max_nodes, 1)
        check_range("recycle", "threshold", self.threshold, 0, 1)


class RecycleDrafter(GuessingDrafter):
    """Guesses that what the target found likely after a token, it finds likely after it again."""

    takes_model: ClassVar[bool] = False
    is_part: ClassVar[bool] = True

    @classmethod
    def guesser(cls) -> Guesser:
        """Return what it guesses with, to share a tree with others."""
        default = RecycleOptions()
        return RecentSuccessors(default.successors, shared=default.shared)

    @classmethod
    def build(cls, target: Target, model: LoadedModel | None, options: dict[str, Any]) -> RecycleDrafter:
        """Make the drafter; `options` are the fields of `RecycleOptions`, anything else is an OptionError."""
        read = read_options(RecycleOptions, "recycle", options)
        guesser = RecentSuccessors(read.successors, shared=read.shared)
        return cls("recycle", [guesser], max_nodes=read.max_nodes, threshold=read.threshold)
