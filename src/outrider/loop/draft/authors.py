"""Which drafter guessed what: asked for by those who look at a tree, never by the loop itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from outrider.loop.draft.base import Drafter
from outrider.types import DraftTree


@runtime_checkable
class Signs(Protocol):
    """What a drafter made of several may offer."""

    def authors(self, state: Any, tree: DraftTree) -> Sequence[str]:
        """Return for each node of the last draft, or of what was left of it, the names of who guessed it.

        Asked after `propose`, before `extend`. Names of several are joined by `+`.
        """
        ...


def authors_of(drafter: Drafter, state: Any, tree: DraftTree) -> Sequence[str]:
    """Return who guessed each node of a sequence's last draft: the drafter itself, where it does not say."""
    return drafter.authors(state, tree) if isinstance(drafter, Signs) else [drafter.name] * len(tree)
