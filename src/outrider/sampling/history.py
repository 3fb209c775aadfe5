"""What the committed text of a sequence holds, kept up as it grows and looked up with a drafted path after
it.

Only committed tokens are ever taken in, so a draft that is turned down leaves no trace; a look-up costs the
length of the path (and the number of distinct tokens), not the length of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Tally:
    """How often each token stands in a list that only grows, from index `start` on."""

    def __init__(self, tokens: Sequence[int], start: int = 0) -> None:
        self._tokens, self._taken = tokens, start
        self._slots: dict[int, int] = {}
        self._ids: NDArray[np.int64] = np.empty(64, np.int64)
        self._counts: NDArray[np.float32] = np.zeros(64, np.float32)

    def after(self, path: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the distinct tokens of text and path, [n] int64, and their counts, [n] float32."""
        self._catch_up()
        size = len(self._slots)
        fresh: dict[int, int] = {}
        counts = self._counts[:size].copy()
        for token in path:
            if token in self._slots:
                counts[self._slots[token]] += 1
            else:
                fresh[token] = fresh.get(token, 0) + 1
        ids = np.concatenate((self._ids[:size], np.fromiter(fresh, np.int64, len(fresh))))
        counts = np.concatenate((counts, np.fromiter(fresh.values(), np.float32, len(fresh))))
        return torch.from_numpy(ids), torch.from_numpy(counts)

    def _catch_up(self) -> None:
        for token in self._tokens[self._taken :]:
            slot = self._slots.setdefault(token, len(self._slots))
            if slot == len(self._ids):
                self._ids = np.concatenate((self._ids, np.empty_like(self._ids)))
                self._counts = np.concatenate((self._counts, np.zeros_like(self._counts)))
            self._ids[slot] = token
            self._counts[slot] += 1
        self._taken = len(self._tokens)


class NGrams:
    """Which tokens follow each run of `size` - 1 tokens in a list that only grows."""

    def __init__(self, tokens: Sequence[int], size: int) -> None:
        assert size >= 1
        self._tokens, self._size, self._taken = tokens, size, 0
        self._followers: dict[tuple[int, ...], set[int]] = {}

    def repeating(self, path: Sequence[int]) -> set[int]:
        """Return the tokens that would complete a run of `size` tokens that text and path hold already."""
        self._catch_up()
        before = self._size - 1
        tail = [*self._tokens[max(0, len(self._tokens) - before) :], *path]
        if len(tail) < before:
            return set()
        last = tuple(tail[len(tail) - before :])
        found = set(self._followers.get(last, ()))
        for end in range(before, len(tail)):  # runs that end on the path
            if tuple(tail[end - before : end]) == last:
                found.add(tail[end])
        return found

    def _catch_up(self) -> None:
        before = self._size - 1
        for end in range(max(self._taken, before), len(self._tokens)):
            run = tuple(self._tokens[end - before : end])
            self._followers.setdefault(run, set()).add(self._tokens[end])
        self._taken = len(self._tokens)
