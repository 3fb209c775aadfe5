"""The cache: what is kept, dropped and rewound."""

from __future__ import annotations

import pytest
import torch

from outrider.cache.kv import KEY_BLOCK, KvCache


def fill(cache: KvCache, values: list[float], branching: bool = False) -> None:
    cache.reserve(len(values), branching=branching)
    rows = torch.tensor(values, dtype=torch.float32)[:, None, None].expand(-1, 2, 4)
    (cache.store_branches if branching else cache.store)(0, rows, -rows)


def held(cache: KvCache) -> list[float]:
    keys, values = cache.view(0, cache.length)
    assert torch.equal(keys, -values)
    return keys[0, :, 0].tolist()


def make() -> KvCache:
    return KvCache(1, 2, 4, torch.device("cpu"))


def test_a_chain_keeps_its_first_rows_and_drops_the_rest() -> None:
    cache = make()
    fill(cache, [1, 2, 3, 4])
    cache.keep([0, 1])
    fill(cache, [5, 6])
    cache.keep([0])
    assert held(cache) == [1, 2, 5]


def test_a_tree_keeps_any_path() -> None:
    cache = make()
    fill(cache, [1])
    cache.keep([0])
    fill(cache, [2, 3, 4, 5], branching=True)
    cache.keep([1, 3])
    assert held(cache) == [1, 3, 5]
    fill(cache, [6, 7], branching=True)
    cache.keep([])
    assert held(cache) == [1, 3, 5]


def test_a_rewound_cache_goes_on_from_where_it_was_cut() -> None:
    cache = make()
    fill(cache, [1, 2, 3, 4])
    cache.keep(range(4))
    cache.truncate(2)
    fill(cache, [9])
    cache.keep([0])
    assert held(cache) == [1, 2, 9]


def test_growth_keeps_what_was_held() -> None:
    cache = make()
    before = cache.nbytes
    for start in range(0, 3 * KEY_BLOCK, 100):
        fill(cache, [float(start + i) for i in range(100)])
        cache.keep(range(100))
    assert held(cache) == [float(i) for i in range(cache.length)]
    assert cache.nbytes > before


@pytest.mark.parametrize("piece", [100, KEY_BLOCK, 700, 5 * KEY_BLOCK])
def test_what_a_text_takes_is_told_before_it_is_read_in_whatever_pieces(piece: int) -> None:
    """A buffer that doubled with every piece came to more than was told of the whole."""
    cache, length = make(), 5 * KEY_BLOCK - 20
    told = cache.bytes_with(length)
    for start in range(0, length, piece):
        count = min(piece, length - start)
        fill(cache, [1.0] * count)
        cache.keep(range(count))
    assert (cache.length, cache.nbytes <= told) == (length, True)


def test_keeping_rows_that_are_not_pending_is_a_fault_of_the_caller() -> None:
    cache = make()
    fill(cache, [1, 2])
    with pytest.raises(AssertionError):
        cache.keep([0, 2])
    with pytest.raises(AssertionError):
        cache.keep([1])
    with pytest.raises(AssertionError):
        cache.truncate(1)
