"""Pages of texts that were run before, for requests whose texts begin alike."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.cache.base import Page


@dataclass(slots=True, eq=False)
class _Node:
    """One page and what comes before it."""

    page: Page
    parent: _Node | None
    block: tuple[int, ...]
    children: dict[tuple[int, ...], _Node] = field(default_factory=dict)
    holders: int = 0
    """Leases whose text goes through here."""


@dataclass(slots=True, eq=False)
class Lease:
    """What one running request holds of the store; held pages are never dropped."""

    nodes: list[_Node] = field(default_factory=list)

    @property
    def pages(self) -> list[Page]:
        """The pages that the request's text begins with."""
        return [node.page for node in self.nodes]


class PrefixStore:
    """A tree of pages of `slots` tokens each, found by the very tokens before and in them.

    Holds at most `most_bytes`; the pages least recently used go first, and a page never before one that
    continues it. What a page holds depends on nothing but the tokens up to its end, so a text that begins
    with stored pages goes on exactly as if it had been read anew. Threads may share a store.
    """

    def __init__(self, slots: int, most_bytes: int) -> None:
        self.slots = slots
        self.most_bytes = most_bytes
        self._first: dict[tuple[int, ...], _Node] = {}
        # Least recently used first. A page is used whenever one that continues it is, and right after it.
        self._used: OrderedDict[_Node, None] = OrderedDict()
        self._bytes = 0
        self._lock = threading.RLock()

    @property
    def nbytes(self) -> int:
        """Bytes of all pages held."""
        return self._bytes

    def __len__(self) -> int:
        """Return the number of pages held."""
        return len(self._used)

    def lease(self, tokens: Sequence[int]) -> Lease:
        """Hold as many stored pages as `tokens` begins with, all of them full."""
        with self._lock:
            lease = Lease()
            self._hold(lease, self._path(tokens))
            return lease

    def match(self, tokens: Sequence[int]) -> int:
        """Return how many of these tokens are stored, in whole pages."""
        with self._lock:
            return len(self._path(tokens)) * self.slots

    def add(self, lease: Lease, tokens: Sequence[int], pages: Sequence[Page]) -> None:
        """Store pages of a request's text, `len(pages) * slots` tokens of it, and hold them for its lease.

        Pages that another request has stored meanwhile stay as they are. What does not fit is left out.
        """
        with self._lock:
            path = self._path(tokens[: len(pages) * self.slots])
            self._hold(lease, path)
            try:
                for index in range(len(path), len(pages)):
                    page = pages[index]
                    self.free(self._bytes + page.nbytes - self.most_bytes)
                    if self._bytes + page.nbytes > self.most_bytes:
                        break
                    block = tuple(tokens[index * self.slots : (index + 1) * self.slots])
                    node = _Node(page, path[-1] if path else None, block)
                    self._below(node.parent)[block] = node
                    self._bytes += page.nbytes
                    path.append(node)
            finally:  # new pages can be dropped, and are known to be used, from here on
                self._hold(lease, path)

    def release(self, lease: Lease) -> None:
        """Give up what a lease holds; the pages stay until their room is wanted."""
        with self._lock:
            while lease.nodes:
                lease.nodes.pop().holders -= 1

    def free(self, wanted: int) -> int:
        """Drop pages that nobody holds, the least recently used first, and return the bytes freed.

        Stops when `wanted` bytes are freed.
        """
        with self._lock:
            freed, doomed = 0, []
            for node in self._used if wanted > 0 else ():
                if freed >= wanted:
                    break
                if node.holders == 0:
                    doomed.append(node)
                    freed += node.page.nbytes
            for node in doomed:
                assert not node.children, "what continues a page is dropped before it"
                del self._below(node.parent)[node.block]
                del self._used[node]
            self._bytes -= freed
            return freed

    def _path(self, tokens: Sequence[int]) -> list[_Node]:
        path: list[_Node] = []
        below = self._first
        for start in range(0, len(tokens) - self.slots + 1, self.slots):
            node = below.get(tuple(tokens[start : start + self.slots]))
            if node is None:
                break
            path.append(node)
            below = node.children
        return path

    def _hold(self, lease: Lease, path: list[_Node]) -> None:
        """Have a lease hold all of a path that begins with what it holds, and note the use."""
        assert lease.nodes == path[: len(lease.nodes)], "a text only grows"
        for node in path[len(lease.nodes) :]:
            node.holders += 1
            lease.nodes.append(node)
        for node in reversed(path):
            self._used[node] = None
            self._used.move_to_end(node)

    def _below(self, parent: _Node | None) -> dict[tuple[int, ...], _Node]:
        return self._first if parent is None else parent.children
