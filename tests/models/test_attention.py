"""Tree attention: paths, masks, and agreement with the textbook formula."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.cache.kv import KvCache
from outrider.models.attention import QUERY_STEPS, Attention, paths, spans, stable_queries
from outrider.models.base import Batch

pytestmark = pytest.mark.usefixtures("two_threads")


@st.composite
def forests(draw: st.DrawFn) -> list[int]:
    count = draw(st.integers(1, 14))
    return [draw(st.integers(-1, node - 1)) for node in range(count)]


@given(parents=forests())
def test_paths_cover_every_node_once_and_run_from_a_root_to_a_leaf(parents: list[int]) -> None:
    cut = paths(parents)
    assert sorted(node for _, fresh in cut for node in fresh) == list(range(len(parents)))
    for path, fresh in cut:
        assert parents[path[0]] == -1
        assert path[-1] not in parents
        assert [parents[node] for node in path[1:]] == path[:-1]
        assert set(fresh) <= set(path)


@given(parents=forests(), cached=st.integers(0, 20), window=st.sampled_from([None, 1, 4, 9]))
@settings(max_examples=40, deadline=None)
def test_tree_attention_agrees_with_the_formula(parents: list[int], cached: int, window: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    kv_heads, groups, dim, n = 2, 3, 8, len(parents)
    cache = KvCache(1, kv_heads, dim, torch.device("cpu"))

    def rows(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        q = torch.randn(count, kv_heads, groups, dim, generator=generator)
        k, v = torch.randn(2, count, kv_heads, dim, generator=generator)
        return q, k, v

    def run(
        batch_parents: list[int], base: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        count = len(batch_parents)
        batch = Batch((0,) * count, (base,) * count, (0,) * count, tuple(batch_parents), ())
        return Attention(spans(batch, [cache], torch.device("cpu")), groups, 4)(0, window, q, k, v)

    with torch.inference_mode():
        old_k = old_v = torch.zeros(0, kv_heads, dim)
        if cached:
            q, old_k, old_v = rows(cached)
            run(list(range(-1, cached - 1)), 0, q, old_k, old_v)
            cache.keep(range(cached))
        q, k, v = rows(n)
        out = run(parents, cached, q, k, v)
    for node in range(n):
        path = [node]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        keys, values = torch.cat([old_k, k[path]]), torch.cat([old_v, v[path]])
        if window is not None:
            keys, values = keys[-window:], values[-window:]
        for head in range(kv_heads):
            weights = torch.softmax(q[node, head] @ keys[:, head].T / dim**0.5, -1)
            torch.testing.assert_close(out[node, head], weights @ values[:, head], rtol=1e-4, atol=1e-5)


def test_the_least_number_of_queries_is_one_that_was_tried() -> None:
    assert stable_queries(2, 3, 16, torch.device("cpu")) in QUERY_STEPS
