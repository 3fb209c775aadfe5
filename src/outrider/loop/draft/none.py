"""No drafts: the plain decoding that every other drafter is measured against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from outrider.cache.base import Cache, CacheKind
from outrider.loop.draft.base import Ask, Rows
from outrider.loop.draft.options import no_options
from outrider.models.base import LoadedModel, Target
from outrider.types import DraftTree


class NoDrafter:
    """Answers every ask with the empty tree, so that each pass emits the one token drawn from the target."""

    name = "none"
    has_law = False
    weighs_costs = False
    observes = False
    features: tuple[int, ...] = ()
    caches: tuple[CacheKind, ...] = ()
    speculates = False
    takes_model: ClassVar[bool] = False

    @classmethod
    def build(cls, target: Target, model: LoadedModel | None, options: dict[str, Any]) -> NoDrafter:
        """Return the drafter; any option is an OptionError, since there is nothing to set."""
        no_options("none", options)
        return cls()

    def open(self, prompt: Sequence[int], tenant: str = "", caches: Sequence[Cache] = ()) -> None:
        """Return None: there is nothing to remember."""

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Return the empty tree for each ask."""
        return [DraftTree() for _ in asks]

    def observe(self, state: Any, tree: DraftTree, rows: Rows) -> None:
        """Learn nothing."""

    def feed(self, state: Any, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        """Learn nothing."""

    def extend(self, state: None, tokens: Sequence[int], kept: int) -> None:
        """Learn nothing."""

    def close(self, state: None) -> None:
        """Free nothing."""
