"""Keys and values of the native pass, behind the protocol that the loop knows."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.cache.base import Cache, Page
from outrider.errors import CapabilityError
from outrider.native import _core


class NativeCache:
    """Implements `cache.base.Cache`: float32, in pages of 64 slots that are never moved.

    It may begin with pages of other caches of its shape; a page that somebody else holds too is copied before
    it is written. ValueError for pages of others, and where rows are kept that are no path of pending rows;
    RuntimeError while a pass writes here.
    """

    can_rewind = True
    page_slots = _core.PAGE_SLOTS
    copies_pages = False

    def __init__(self, layers: int, kv_heads: int, head_dim: int, pages: Sequence[Page] = ()) -> None:
        own = [page for page in pages if isinstance(page, _core.Page)]
        if len(own) != len(pages):
            raise ValueError("a cache begins with pages of caches of its own kind")
        self._shape = (layers, kv_heads, head_dim)
        self.core = _core.Cache(*self._shape, own)

    @property
    def length(self) -> int:
        """Number of committed tokens."""
        return self.core.length

    @property
    def nbytes(self) -> int:
        """Bytes of all pages."""
        return self.core.nbytes

    def bytes_with(self, rows: int) -> int:
        """Return the bytes of all pages once a pass has run this many rows more."""
        held = -(-(self.core.length + rows) // self.page_slots) * self.core.page_bytes
        return max(held, self.core.nbytes)

    def pages(self, count: int) -> list[_core.Page]:
        """Return the first `count` pages; ValueError unless committed tokens fill them."""
        return self.core.pages(count)

    def keep(self, rows: Sequence[int]) -> None:
        """Commit these pending rows, a path from the root down; drop the others."""
        self.core.keep(list(rows))

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` tokens; 0 also frees the memory."""
        self.core.truncate(length)
        if length == 0:
            self.core = _core.Cache(*self._shape)


def cores(caches: Sequence[Cache]) -> list[_core.Cache]:
    """Return what the core knows of caches; CapabilityError for one of another pass."""
    own = [cache.core for cache in caches if isinstance(cache, NativeCache)]
    if len(own) != len(caches):
        raise CapabilityError("a pass takes the caches that its own model's new_cache() returns")
    return own
