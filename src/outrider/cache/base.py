"""What the loop asks of a cache, whatever model fills it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Page(Protocol):
    """Keys and values of `Cache.page_slots` tokens in a row, for other caches to begin with."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        ...


class Cache(Protocol):
    """Keys and values of one sequence.

    A pass appends one entry for each row it ran for this sequence; until `keep` is called they are pending.
    """

    can_rewind: bool
    """True when `truncate` works for every length."""
    page_slots: int
    """Tokens of a page; 0 where this cache cannot begin with another one's pages."""
    copies_pages: bool
    """True when a page is a copy, with memory of its own; False when caches and pages share memory."""

    @property
    def length(self) -> int:
        """Number of committed tokens held (pending rows not counted)."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        ...

    def bytes_with(self, rows: int) -> int:
        """Return the bytes held once a pass has run this many rows more (an estimate before the first)."""
        ...

    def pages(self, count: int) -> Sequence[Page]:
        """Return the first `count` pages; committed tokens must fill them."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Commit these pending rows (ascending indices, a path from the root down), drop the rest."""
        ...

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` tokens; 0 also frees the memory."""
        ...
