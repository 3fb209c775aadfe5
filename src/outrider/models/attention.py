"""Tree attention on cached keys whose rows don't depend on their neighbours.

A row at position p sees its ancestors at slots 0 … p, whatever else is in the pass: every root-to-leaf path
of a tree is laid out as if it were the text, so slot and position are the same thing, and sums over keys run
in the same order as in plain decoding. Library kernels also round differently for different shapes, so keys
are taken in whole blocks of 512 slots (masked past the row) and rows in tiles of at most 32 queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.cache.kv import KEY_BLOCK, KvCache
from outrider.models.base import Batch

QUERY_TILE = 32
QUERY_STEPS = (4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Span:
    """Rows of one sequence that lie on one root-to-leaf path.

    `rows [Q]` (of the pass) are computed here; `path [P]` (of this sequence's rows) is the whole path, None
    where the sequence is a chain, whose keys already lie in place.
    """

    cache: KvCache
    rows: slice | Tensor
    path: Tensor | None
    count: int
    positions: Tensor
    slots: int


def paths(parents: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Cut a forest into root-to-leaf paths: each whole, with those of its nodes that are on no earlier one.

    `parents [n]` with −1 for roots, parents before children.
    """
    inner = set(parents)
    seen: set[int] = set()
    cut = []
    for leaf in range(len(parents)):
        if leaf in inner:
            continue
        path, node = [], leaf
        while node >= 0:
            path.append(node)
            node = parents[node]
        path.reverse()
        fresh = [node for node in path if node not in seen]
        seen.update(fresh)
        cut.append((path, fresh))
    return cut


def spans(batch: Batch, caches: Sequence[KvCache], device: torch.device) -> list[Span]:
    """Lay out a batch: one span for each chain, one for each path of a tree. Reserves the caches' slots."""
    result: list[Span] = []
    start = 0
    for index, cache in enumerate(caches):
        end = start
        while end < len(batch) and batch.sequences[end] == index:
            end += 1
        local = [parent - start if parent >= 0 else -1 for parent in batch.parents[start:end]]
        base, count = cache.length, end - start
        if local == list(range(-1, count - 1)):
            cache.reserve(count, branching=False)
            positions = torch.arange(base, base + count, device=device)
            result.append(Span(cache, slice(start, end), None, count, positions, base + count))
        else:
            cache.reserve(count, branching=True)
            for path, fresh in paths(local):
                depth = {node: i for i, node in enumerate(path)}
                positions = torch.tensor([base + depth[node] for node in fresh], device=device)
                rows = torch.tensor([start + node for node in fresh], device=device)
                whole = torch.tensor(path, device=device)
                result.append(Span(cache, rows, whole, len(fresh), positions, base + len(path)))
        start = end
    assert start == len(batch), "rows of a sequence must stand together, in the order of the caches"
    return result


class Attention:
    """Scaled dot-product attention with grouped heads over spans.

    One object serves all layers of one pass: the masks are built once for each window that occurs.
    """

    def __init__(self, spans: Sequence[Span], groups: int, min_queries: int) -> None:
        self._spans = spans
        self._groups = groups
        self._min = min_queries
        self._masks: dict[int | None, list[Tensor]] = {}

    def __call__(self, layer: int, window: int | None, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend. `q [R, Hkv, G, D]`, `k`, `v [R, Hkv, D]` (stored as pending) to `[R, Hkv, G, D]`."""
        if window not in self._masks:
            self._masks[window] = [self._mask(span, window) for span in self._spans]
        if len(self._spans) == 1 and self._spans[0].path is None:
            return self._attend(self._spans[0], layer, q, k, v, self._masks[window][0])
        out = torch.empty_like(q)
        stored: set[int] = set()
        for span, mask in zip(self._spans, self._masks[window], strict=True):
            if span.path is not None and id(span.cache) not in stored:
                stored.add(id(span.cache))
                rows = self._rows_of(span.cache)
                span.cache.store_branches(layer, k[rows], v[rows])
            out[span.rows] = self._attend(span, layer, q[span.rows], k[span.rows], v[span.rows], mask)
        return out

    def _rows_of(self, cache: KvCache) -> Tensor:
        rows = [span.rows for span in self._spans if span.cache is cache and isinstance(span.rows, Tensor)]
        return torch.cat(rows).sort().values

    def _attend(self, span: Span, layer: int, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        if span.path is None:
            span.cache.store(layer, k, v)
        else:
            span.cache.lay_out(layer, span.path)
        keys, values = span.cache.view(layer, mask.shape[-1])  # [Hkv, S, D]
        count, kv_heads, groups, dim = q.shape
        tiles, per_tile = mask.shape[0], self._per_tile(count)
        queries = mask.shape[-2]
        q = F.pad(q, (0, 0, 0, 0, 0, 0, 0, tiles * per_tile - count)) if tiles * per_tile > count else q
        q = q.view(tiles, per_tile, kv_heads, groups, dim).transpose(1, 2)
        q = q.reshape(tiles, kv_heads, per_tile * groups, dim)
        if queries > per_tile * groups:
            q = F.pad(q, (0, 0, 0, queries - per_tile * groups))
        out = F.scaled_dot_product_attention(
            q, keys.expand(tiles, -1, -1, -1), values.expand(tiles, -1, -1, -1), attn_mask=mask
        )
        out = out[:, :, : per_tile * groups].reshape(tiles, kv_heads, per_tile, groups, dim).transpose(1, 2)
        return out.reshape(tiles * per_tile, kv_heads, groups, dim)[:count]

    def _per_tile(self, count: int) -> int:
        return min(count, max(1, QUERY_TILE // self._groups))

    def _mask(self, span: Span, window: int | None) -> Tensor:
        """Return the additive mask, [tiles, 1, queries, S]; rows that only pad see slot 0."""
        per_tile = self._per_tile(span.count)
        tiles = max(-(-span.count // per_tile), least_tiles(span.cache.kv_heads))
        slots = -(-span.slots // KEY_BLOCK) * KEY_BLOCK
        position = F.pad(span.positions, (0, tiles * per_tile - span.count))
        slot = torch.arange(slots, device=position.device)
        hidden = slot > position[:, None]
        if window is not None:
            hidden |= slot <= position[:, None] - window
        mask = torch.zeros(hidden.shape, device=position.device).masked_fill_(hidden, float("-inf"))
        mask = mask.view(tiles, per_tile, 1, slots).expand(-1, -1, self._groups, -1)
        mask = mask.reshape(tiles, 1, per_tile * self._groups, slots)
        short = self._min - mask.shape[2]
        return torch.cat([mask, mask[:, :, :1].expand(-1, -1, short, -1)], 2) if short > 0 else mask


def least_tiles(kv_heads: int) -> int:
    """Return the fewest tiles of a call: with one task in all, the products inside would use all threads and
    be summed in another order than in calls with several.
    """
    return 2 if kv_heads == 1 else 1


def stable_queries(kv_heads: int, groups: int, dim: int, device: torch.device) -> int:
    """Return the fewest queries a call must hold so that rows don't depend on their neighbours here.

    Found by trial: each count is compared with a full tile on the same keys. A full tile always qualifies,
    because then every call has the same shape.
    """
    if device.type != "cpu":
        return QUERY_TILE
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.randn(2, 1, kv_heads, 2 * KEY_BLOCK, dim, generator=generator)
    q = torch.randn(1, kv_heads, QUERY_TILE, dim, generator=generator)
    tiles = least_tiles(kv_heads)
    keys, values, q = (x.expand(tiles, -1, -1, -1) for x in (keys, values, q))
    mask = torch.zeros(QUERY_TILE, 2 * KEY_BLOCK)
    for row in range(QUERY_TILE):
        mask[row, row * 2 * KEY_BLOCK // QUERY_TILE + 1 :] = float("-inf")
    whole = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)

    def stable(count: int, start: int, slots: int) -> bool:
        part = slice(start, start + count)
        out = F.scaled_dot_product_attention(
            q[:, :, part], keys[:, :, :slots], values[:, :, :slots], attn_mask=mask[part, :slots]
        )
        return torch.equal(out, whole[:, :, part])

    for least in QUERY_STEPS:
        counts = range(least, QUERY_TILE + 1)
        half = QUERY_TILE // 2  # rows before this one see nothing past the first block
        if all(stable(n, s, 2 * KEY_BLOCK) for n in counts for s in (0, QUERY_TILE - n)) and all(
            stable(n, 0, KEY_BLOCK) for n in counts if n <= half
        ):
            return least
    return QUERY_TILE
