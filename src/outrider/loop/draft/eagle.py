"""Drafts with an EAGLE head: a small layer that continues the target's own hidden states.

EAGLE-1 (arXiv 2401.15077), EAGLE-2's trees (arXiv 2406.16858) and EAGLE-3 (arXiv 2503.01840).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from outrider.errors import OptionError
from outrider.heads.passes import ReadyHead
from outrider.loop.draft.base import Ask
from outrider.loop.draft.eagle_rows import Followed, HeadReader
from outrider.loop.draft.level import LevelProbe
from outrider.loop.draft.lm_tree import ModelTreeDrafter
from outrider.loop.draft.mixed import MixedGuesses
from outrider.loop.draft.options import check_range, read_options
from outrider.loop.draft.shape import Shape, height, parse_shape
from outrider.models.base import Target
from outrider.types import DraftTree


@dataclass(frozen=True)
class EagleOptions:
    """What can be set about the drafter with a head; a value out of its range is an OptionError."""

    width: int = 4
    """Most nodes that one pass of the head continues, and most children of a node (1 to 64)."""
    depth: int = 6
    """Most nodes on a path: one pass of the head each (1 to 64)."""
    tree: str = ""
    """A fixed shape: children of a node level by level (4,2,1), or the parent of every node (-1,-1,0)."""

    sample: bool = True
    """Draft by the head's own law where the text is sampled; False: its likeliest tokens, always."""

    def __post_init__(self) -> None:
        if self.tree and not self.sample:
            raise OptionError("eagle options 'tree' and 'sample' exclude each other; leave one out")
        check_range("eagle", "width", self.width, 1, 64)
        check_range("eagle", "depth", self.depth, 1, 64)
        if self.tree:
            parse_shape(self.tree)


class EagleDrafter(ModelTreeDrafter):
    """Drafts trees with an EAGLE head, as `ModelTreeDrafter` does with a model.

    The head follows the committed text by the target's hidden states, which replace what it had made up for
    drafted tokens. Nothing is drafted before the prompt's states have come: in the step that reads its end.
    """

    takes_model: ClassVar[bool] = True
    takes_head: ClassVar[bool] = True
    is_part: ClassVar[bool] = True

    def __init__(
        self,
        head: ReadyHead,
        *,
        width: int = EagleOptions.width,
        depth: int = EagleOptions.depth,
        shape: Shape = (),
        name: str = "eagle",
        beside: MixedGuesses | None = None,
        samples: bool = True,
    ) -> None:
        reader = HeadReader(head)
        super().__init__(
            reader,
            head.cost,
            width=width,
            shape=shape,
            levels=depth,
            name=name,
            beside=beside,
            samples=samples,
        )
        self.features = head.features
        self._rows = reader

    @classmethod
    def build(cls, target: Target, model: ReadyHead | None, options: dict[str, Any]) -> EagleDrafter:
        """Make a drafter of a head that was loaded for this target; `options`: fields of `EagleOptions`."""
        read = read_options(EagleOptions, "eagle", options)
        head = _needed(model)
        shape = parse_shape(read.tree) if read.tree else ()
        depth = height(shape) if shape else read.depth
        return cls(head, width=read.width, depth=depth, shape=shape, samples=read.sample)

    @classmethod
    def beside(
        cls, target: Target, model: ReadyHead | None, guesses: MixedGuesses, *, width: int, name: str
    ) -> EagleDrafter:
        """Make a drafter whose trees hold the guesses of others, too."""
        head = _needed(model)
        return cls(head, width=width, name=name, beside=guesses)

    def probe(self) -> LevelProbe:
        """Return what times levels of its trees, after states of zeros."""

        def begin(tokens: list[int]) -> Followed:
            followed = self._rows.begin(tokens)
            self._rows.take(followed, torch.zeros(len(tokens) - 1, self._rows.state_size))
            return followed

        return LevelProbe(self, self._rows, begin)

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Return a tree for each ask; the head's caches then hold no guesses any more."""
        try:
            return super().propose(asks)
        finally:
            for ask in asks:
                ask.state[0].rewind()

    def feed(
        self, state: tuple[Followed, Any, Any], start: int, tokens: Sequence[int], hidden: Tensor
    ) -> None:
        """Take the target's states [C, n, D]."""
        followed = state[0]
        known = followed.read + sum(map(len, followed.waiting))
        assert start == known, "states follow each other without a gap"
        self._rows.take(followed, hidden.transpose(0, 1).flatten(1))


def _needed(head: ReadyHead | None) -> ReadyHead:
    if head is None:
        raise OptionError("the drafter 'eagle' needs a head: write eagle:PATH")
    return head
