"""The best fixed tree: the same as by trying every tree, for any acceptance and any cost curve."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.planner.sequoia import best_tree, rank_acceptance


def all_trees(nodes: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to hang up to `nodes` nodes, many of them more than once."""
    for count in range(nodes + 1):
        yield from itertools.product(*(range(-1, node) for node in range(count)))


def tokens_of(parents: tuple[int, ...], acceptance: list[list[float]]) -> float:
    """Return the expected tokens of a pass over a tree whose siblings are tried in order."""
    survival: list[float] = []
    depths: list[int] = []
    for node, parent in enumerate(parents):
        depth = 0 if parent < 0 else depths[parent] + 1
        row = acceptance[min(depth, len(acceptance) - 1)]
        rank = parents[:node].count(parent)
        depths.append(depth)
        above = 1.0 if parent < 0 else survival[parent]
        survival.append(above * (row[rank] if rank < len(row) else 0.0))
    return 1 + sum(survival)


def depth_of(parents: tuple[int, ...]) -> int:
    depths: list[int] = []
    for parent in parents:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return max(depths, default=0)


@st.composite
def rows(draw: st.DrawFn) -> list[float]:
    """Chances that sum to 1 at most, not necessarily falling."""
    weights = draw(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4))
    scale = draw(st.floats(0.1, 1.0)) / max(sum(weights), 1.0)
    return [weight * scale for weight in weights]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(rows(), min_size=1, max_size=3),
    st.lists(st.floats(0.0, 0.6), min_size=0, max_size=4),
    st.floats(0.0, 0.5),
)
def test_no_tree_brings_more_tokens_for_its_time(
    acceptance: list[list[float]], steps: list[float], draft_cost: float
) -> None:
    costs = list(itertools.accumulate(steps, initial=1.0))
    found = best_tree(acceptance, costs, draft_cost=draft_cost)
    assert found.tokens == pytest.approx(tokens_of(found.parents, acceptance))
    most = max(
        tokens_of(tree, acceptance) / (costs[len(tree)] + depth_of(tree) * draft_cost)
        for tree in all_trees(len(costs) - 1)
    )
    assert found.tokens / found.time == pytest.approx(most)


def test_sure_first_children_make_a_chain_and_unsure_ones_a_bush() -> None:
    free = [1.0] * 5
    assert best_tree([[0.9, 0.05]], free).parents == (-1, 0, 1, 2)
    assert best_tree([[0.3, 0.25, 0.2, 0.15]], free).parents == (-1, -1, -1, -1)


def test_acceptance_may_depend_on_the_depth() -> None:
    parents = best_tree([[0.35, 0.33], [0.95, 0.01]], [1.0] * 6).parents
    assert parents.count(-1) == 2
    assert depth_of(parents) > 2


def test_nothing_is_drafted_where_nodes_cost_more_than_they_bring() -> None:
    assert best_tree([[0.5]], [1.0, 2.0, 3.0]).parents == ()
    assert best_tree([], [1.0, 1.0]).parents == ()
    assert best_tree([[0.5]], [1.0]).parents == ()


def test_acceptance_is_counted_by_depth_and_rank() -> None:
    assert rank_acceptance([[10, 10], [8, 0], [0, 0]], [[5, 2], [6, 0], [0, 0]]) == [[0.5, 0.2], [0.75]]
    assert rank_acceptance([[2, 2]], [[2, 1]]) == [[pytest.approx(2 / 3), pytest.approx(1 / 3)]]
