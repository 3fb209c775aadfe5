"""Pages of texts that were run before, for requests whose texts begin alike."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.cache.base import Cache, Page


@dataclass(slots=True, eq=False)
class _Root:
    """Where all texts of one kind of caches begin."""

    mark: object
    slots: int
    """Tokens of a page."""
    children: dict[tuple[int, ...], _Node] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Node:
    """One page and what comes before it."""

    page: Page
    parent: _Node | _Root
    block: tuple[int, ...]
    children: dict[tuple[int, ...], _Node] = field(default_factory=dict)
    holders: int = 0
    """Leases whose text goes through here."""


@dataclass(slots=True, eq=False)
class Lease:
    """What one running request holds of the store; held pages are never dropped."""

    nodes: list[_Node] = field(default_factory=list)
    mark: object = None
    """Whose pages they are; None: the target's."""
    slots: int = 0
    """Tokens of each of them."""

    @property
    def tokens(self) -> int:
        """How many tokens the pages hold."""
        return len(self.nodes) * self.slots

    @property
    def pages(self) -> list[Page]:
        """The pages that the request's text begins with."""
        return [node.page for node in self.nodes]


class PrefixStore:
    """A tree of pages of `slots` tokens each, found by the very tokens before and in them.

    Beside it stand trees of pages of the caches that drafters keep, each under the mark of its `CacheKind`.
    All together hold at most `most_bytes`; the pages least recently used go first, and a page never before
    one that continues it. What a page holds depends on nothing but the tokens up to its end, so a text that
    begins with stored pages goes on exactly as if it had been read anew. Threads may share a store.
    """

    def __init__(self, slots: int, most_bytes: int) -> None:
        self.slots = slots
        self.most_bytes = most_bytes
        self._roots: dict[object, _Root] = {}
        # Least recently used first. A page is used whenever one that continues it is, and right after it.
        self._used: OrderedDict[_Node, None] = OrderedDict()
        self._bytes = 0
        self._lock = threading.RLock()

    @classmethod
    def of_pages_like(cls, cache: Cache, most_bytes: int) -> PrefixStore | None:
        """Return a store for pages of such caches; None where they have none."""
        return cls(cache.page_slots, most_bytes) if cache.page_slots else None

    @property
    def nbytes(self) -> int:
        """Bytes of all pages held."""
        return self._bytes

    def __len__(self) -> int:
        """Return the number of pages held."""
        return len(self._used)

    def lease(self, tokens: Sequence[int], mark: object = None, slots: int | None = None) -> Lease:
        """Hold as many stored pages as `tokens` begins with, all of them full.

        `mark`, with the `slots` of its pages: those of a drafter's caches, in place of the target's.
        """
        with self._lock:
            lease = Lease([], mark, self.slots if slots is None else slots)
            self._hold(lease, self._path(lease, tokens))
            return lease

    def match(self, tokens: Sequence[int]) -> int:
        """Return how many of these tokens are stored for the target, in whole pages."""
        with self._lock:
            return len(self._path(Lease([], None, self.slots), tokens)) * self.slots

    def add(self, lease: Lease, tokens: Sequence[int], pages: Sequence[Page]) -> None:
        """Store pages of a request's text, `len(pages) * slots` tokens of it, and hold them for its lease.

        Pages that another request has stored meanwhile stay as they are. What does not fit is left out.
        """
        slots = lease.slots
        with self._lock:
            path = self._path(lease, tokens[: len(pages) * slots])
            self._hold(lease, path)
            try:
                for index in range(len(path), len(pages)):
                    page = pages[index]
                    self.free(self._bytes + page.nbytes - self.most_bytes)
                    if self._bytes + page.nbytes > self.most_bytes:
                        break
                    block = tuple(tokens[index * slots : (index + 1) * slots])
                    node = _Node(page, path[-1] if path else self._root(lease), block)
                    node.parent.children[block] = node
                    self._bytes += page.nbytes
                    path.append(node)
            finally:  # new pages can be dropped, and are known to be used, from here on
                self._hold(lease, path)

    def release(self, lease: Lease, keep: int = 0) -> None:
        """Give up what a lease holds, but for its first pages; they stay until their room is wanted."""
        with self._lock:
            while len(lease.nodes) > keep:
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
                del node.parent.children[node.block]
                del self._used[node]
                if isinstance(node.parent, _Root) and not node.parent.children:
                    del self._roots[node.parent.mark]
            self._bytes -= freed
            return freed

    def _root(self, lease: Lease) -> _Root:
        if lease.mark not in self._roots:
            self._roots[lease.mark] = _Root(lease.mark, lease.slots)
        return self._roots[lease.mark]

    def _path(self, lease: Lease, tokens: Sequence[int]) -> list[_Node]:
        path: list[_Node] = []
        root = self._roots.get(lease.mark)
        if root is None:
            return path
        assert root.slots == lease.slots, "pages of one kind are alike"
        below = root.children
        for start in range(0, len(tokens) - root.slots + 1, root.slots):
            node = below.get(tuple(tokens[start : start + root.slots]))
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
