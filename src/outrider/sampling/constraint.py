"""What a constraint is: rules of the output (a grammar, a schema) as masks over the next token."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor


class Constraint(ABC):
    """The constraint of one sequence. It moves on with committed tokens only.

    `Processing` calls `commit` with each committed output token once, in order, and the others any number of
    times in between, with any drafted paths after the committed text; they must leave no trace. Only `commit`
    and `mask` must be written: `mask` alone decides what is emitted, the others only make drafts better.
    """

    name: str = "the constraint"
    """What to call it in an error."""

    @abstractmethod
    def commit(self, tokens: Sequence[int]) -> None:
        """Take in output tokens that are now part of the text."""

    @abstractmethod
    def mask(self, path: Sequence[int], vocab_size: int) -> Tensor | None:
        """Return which tokens may follow the committed text and then `path`: bool [V]; None allows all.

        A path that the constraint itself does not allow gets any answer: it is never emitted.
        """

    def accepts(self, path: Sequence[int]) -> int:
        """Return how many tokens of `path`, from its first, may follow the committed text."""
        return len(path)

    def is_over(self, path: Sequence[int]) -> bool:
        """Tell whether the text is complete after `path`, so that nothing but its end may follow."""
        return False

    def forced(self, limit: int) -> list[int]:
        """Return at most `limit` tokens that will most likely follow, since the constraint leaves little
        choice; they are drafted, and verified like any guess.
        """
        return []
