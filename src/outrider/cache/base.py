"""What the loop asks of a cache, whatever model fills it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Cache(Protocol):
    """Keys and values of one sequence.

    A pass appends one entry for each row it ran for this sequence; until `keep` is called they are pending.
    """

    can_rewind: bool
    """True when `truncate` works for every length."""

    @property
    def length(self) -> int:
        """Number of committed tokens held (pending rows not counted)."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Commit these pending rows (ascending indices, a path from the root down), drop the rest."""
        ...

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` tokens; 0 also frees the memory."""
        ...
