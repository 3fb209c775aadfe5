"""The cache of what draws on no earlier rows."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.cache.base import Page


class NoCache:
    """Implements `cache.base.Cache`: nothing is held."""

    can_rewind = True
    page_slots = 0
    copies_pages = False
    length = 0
    nbytes = 0

    def bytes_with(self, rows: int) -> int:
        """Return 0."""
        return 0

    def pages(self, count: int) -> Sequence[Page]:
        """Return none."""
        assert count == 0
        return ()

    def keep(self, rows: Sequence[int]) -> None:
        """Keep none."""

    def truncate(self, length: int) -> None:
        """Forget nothing."""
        assert length == 0
