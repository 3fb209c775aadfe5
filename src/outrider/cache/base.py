"""What the loop asks of a cache, whatever model fills it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True, eq=False)
class CacheKind:
    """Caches that a drafter keeps, one for each sequence, whose first tokens are those of the text."""

    new: Callable[..., Cache]
    """Makes an empty one, or one that begins with pages of others of this kind, as `Target.new_cache`."""
    limit: int
    """Most tokens of a text that one comes to hold."""
    of_states: bool = False
    """True where it is filled from the target's hidden states: what it lacks can only be had while the target
    reads, so a text begins with no more of a prefix than both have. The last entry may then depend on the
    token after it, too."""
    mark: object = field(default_factory=object)
    """Tells stored pages of this kind from all others; it outlives the drafter while there are such."""

    def make(self, pages: Sequence[Page] = ()) -> Cache:
        """Return a cache, empty or beginning with these pages."""
        return self.new(pages) if pages else self.new()

    def bytes_for(self, tokens: int, guesses: int) -> int:
        """Return the bytes that one comes to for a text of so many tokens, with guesses behind it."""
        return self.make().bytes_with(min(tokens, self.limit) + guesses)
