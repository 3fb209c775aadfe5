"""Keys and values of the lean decoder: one growing buffer a sequence, slot = position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from outrider.cache.base import Cache, Page
from outrider.errors import CapabilityError

KEY_BLOCK = 512
"""Slots come in whole blocks of this many; attention reads whole blocks and masks what lies past a row."""


@dataclass(frozen=True, slots=True)
class TensorPage:
    """Keys and values of 64 tokens, `held [L, 2, Hkv, 64, D]`."""

    held: Tensor

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return self.held.nbytes


class KvCache:
    """Implements `cache.base.Cache`. Buffer `[L, 2, Hkv, S, D]` float32; grows by doubling.

    Pending rows of a chain lie in their final slots. Pending rows of a tree lie in a side buffer
    `[L, 2, Hkv, n, D]` and are laid out path by path while attention runs; `keep` lays out the kept one.
    """

    can_rewind = True
    page_slots = 64
    copies_pages = True

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        device: torch.device,
        pages: Sequence[Page] = (),
    ) -> None:
        """ValueError for pages of caches of another kind."""
        own = [page for page in pages if isinstance(page, TensorPage)]
        if len(own) != len(pages):
            raise ValueError("a cache begins with pages of caches of its own kind")
        self.kv_heads = kv_heads
        self._shape = (layers, 2, kv_heads, head_dim)
        self._device = device
        self._buffer = torch.zeros(layers, 2, kv_heads, 0, head_dim, device=device)
        self._side: Tensor | None = None
        self._length = 0
        self._pending = 0
        if own:
            self._buffer = self._grown(len(own) * self.page_slots)
            for page in own:
                end = self._length + self.page_slots
                self._buffer[:, :, :, self._length : end] = page.held
                self._length = end

    @property
    def length(self) -> int:
        """Number of committed tokens."""
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes of both buffers."""
        return self._buffer.nbytes + (self._side.nbytes if self._side is not None else 0)

    def bytes_with(self, rows: int) -> int:
        """Return the bytes once a pass has run this many rows more, of a tree."""
        layers, parts, kv_heads, dim = self._shape
        slots = self._capacity(self._length + rows) + rows
        return max(layers * parts * kv_heads * slots * dim * self._buffer.element_size(), self.nbytes)

    def pages(self, count: int) -> list[TensorPage]:
        """Return copies of the first `count` pages; committed tokens must fill them."""
        assert count * self.page_slots <= self._length
        starts = range(0, count * self.page_slots, self.page_slots)
        return [
            TensorPage(self._buffer[:, :, :, start : start + self.page_slots].clone()) for start in starts
        ]

    @torch.inference_mode()
    def keep(self, rows: Sequence[int]) -> None:
        """Commit these pending rows, a path from the root down; drop the others."""
        assert all(0 <= row < self._pending for row in rows), "only pending rows can be kept"
        kept = len(rows)
        if self._side is not None:
            path = torch.tensor(rows, dtype=torch.long, device=self._device)
            self._buffer[:, :, :, self._length : self._length + kept] = self._side.index_select(3, path)
            self._side = None
        else:
            assert list(rows) == list(range(kept)), "a chain keeps its first rows"
        self._length += kept
        self._pending = 0

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        assert 0 <= length <= self._length
        self._length, self._pending, self._side = length, 0, None
        if length == 0:
            self._buffer = self._buffer[:, :, :, :0].clone()

    @torch.inference_mode()
    def reserve(self, rows: int, *, branching: bool) -> None:
        """Make room for `rows` pending rows; whatever was pending is dropped."""
        layers, _, kv_heads, dim = self._shape
        if self._capacity(self._length + rows) > self._buffer.shape[3]:
            self._buffer = self._grown(self._length + rows)
        self._pending = rows
        # zeros here, too: a pass that leaves layers out writes nothing for them, and its rows may be kept
        self._side = torch.zeros(layers, 2, kv_heads, rows, dim, device=self._device) if branching else None

    def _capacity(self, slots: int) -> int:
        """Return the slots of a buffer that has room for this many."""
        # Blocks come in powers of two, so that what a text takes does not depend on the pieces it is read in.
        blocks = -(-slots // KEY_BLOCK)
        needed = KEY_BLOCK << (blocks - 1).bit_length() if blocks else 0
        return max(needed, self._buffer.shape[3])

    def _grown(self, slots: int) -> Tensor:
        """Return a larger buffer that begins with the committed slots."""
        layers, parts, kv_heads, dim = self._shape
        # zeros, not empty: masked slots are multiplied by 0, and 0 · NaN is NaN
        grown = torch.zeros(layers, parts, kv_heads, self._capacity(slots), dim, device=self._device)
        grown[:, :, :, : self._length] = self._buffer[:, :, :, : self._length]
        return grown

    @torch.inference_mode()
    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Write the pending chain's keys and values, `[n, Hkv, D]` each, into their slots."""
        slots = self._buffer[layer, :, :, self._length : self._length + len(k)]
        slots[0] = k.transpose(0, 1)
        slots[1] = v.transpose(0, 1)

    @torch.inference_mode()
    def store_branches(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Write the pending tree's keys and values, `[n, Hkv, D]` each, into the side buffer."""
        assert self._side is not None
        self._side[layer, 0] = k.transpose(0, 1)
        self._side[layer, 1] = v.transpose(0, 1)

    @torch.inference_mode()
    def lay_out(self, layer: int, path: Tensor) -> None:
        """Put the pending rows `path [P]` into the slots after the committed ones, for this layer."""
        assert self._side is not None
        end = self._length + len(path)
        self._buffer[layer, :, :, self._length : end] = self._side[layer].index_select(2, path)

    def view(self, layer: int, slots: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of the first `slots` slots, `[Hkv, S, D]` each."""
        held = self._buffer[layer, :, :, :slots]
        return held[0], held[1]


def kv_caches(caches: Sequence[Cache]) -> list[KvCache]:
    """Return caches as such of the PyTorch pass; CapabilityError for one of another pass."""
    own = [cache for cache in caches if isinstance(cache, KvCache)]
    if len(own) != len(caches):
        raise CapabilityError("a pass takes the caches that its own model's new_cache() returns")
    return own
