"""What a constraint is: rules of the output (a grammar, a schema) as masks over the next token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Constraint(Protocol):
    """The constraint of one sequence. It moves on with committed tokens only.

    `Processing` calls `commit` with each committed output token once, in order, and `mask` any number of
    times in between, with any drafted paths after the committed text; `mask` must leave no trace.
    """

    def commit(self, tokens: Sequence[int]) -> None:
        """Take in output tokens that are now part of the text."""
        ...

    def mask(self, path: Sequence[int], vocab_size: int) -> Tensor | None:
        """Return which tokens may follow the committed text and then `path`: bool [V]; None allows all.

        A path that the constraint itself does not allow gets any answer: it is never emitted.
        """
        ...
