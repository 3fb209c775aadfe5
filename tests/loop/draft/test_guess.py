"""Trees of guesses: prefix-closed, within budget, no sibling twice, likeliest first, fair records."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.loop.draft.guess import CERTAIN, Guess, best_first, join, record
from outrider.loop.draft.rates import PRIOR_WEIGHT, Rates
from outrider.loop.draft.worth import best_count
from outrider.types import DraftTree

Lists = dict[tuple[int, ...], list[Guess]]


class Listed:
    """Guesses from a table by path; a place is the path."""

    def __init__(self, lists: Lists) -> None:
        self.lists = lists

    def here(self, state: None) -> tuple[int, ...]:
        return ()

    def follow(self, state: None, place: tuple[int, ...], token: int) -> tuple[int, ...]:
        return (*place, token)

    def guesses(self, state: None, place: tuple[int, ...]) -> list[Guess]:
        return self.lists.get(place, [])


def grow(lists: Lists, budget: int, **options: Any) -> DraftTree:
    settings = {"branch": True, "floor": 0.0, "costs": (), **options}
    tree, _ = best_first(Listed(lists), None, budget, **settings)
    return tree


@st.composite
def tables(draw: st.DrawFn) -> Lists:
    """Lists of up to three guesses for every path of up to four tokens."""
    lists: Lists = {}
    paths: list[tuple[int, ...]] = [()]
    for _ in range(draw(st.integers(1, 12))):
        if not paths:
            break
        path = paths.pop(0)
        tokens = draw(st.lists(st.integers(0, 5), max_size=3, unique=True))
        chances = [draw(st.floats(0.0, 1.0)) for _ in tokens]
        lists[path] = [Guess(t, c, (path, t)) for t, c in zip(tokens, chances, strict=True)]
        paths += [(*path, token) for token in tokens]
    return lists


def survivals(lists: Lists) -> dict[tuple[int, ...], float]:
    """Return the survival of every node of a table, by the product of chances on its path."""
    found: dict[tuple[int, ...], float] = {(): 1.0}
    for path in sorted(lists, key=len):
        for guess in lists[path]:
            found[*path, guess.token] = found[path] * guess.chance
    del found[()]
    return found


def paths(tree: DraftTree) -> list[tuple[int, ...]]:
    """Return the tokens on the path to every node."""
    found: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


@given(tables(), st.integers(1, 8))
def test_the_tree_holds_the_likeliest_nodes_and_none_twice(lists: Lists, budget: int) -> None:
    nodes = paths(grow(lists, budget))
    known = survivals(lists)
    assert len(nodes) == min(budget, len(known)) == len(set(nodes))
    assert all(node[:-1] in ((), *nodes) for node in nodes)
    best = sorted(known.values(), reverse=True)[:budget]
    assert sorted((known[node] for node in nodes), reverse=True) == pytest.approx(best)
    assert all(known[b] <= known[a] + 1e-12 for a, b in pairwise(nodes))


@given(tables(), st.integers(1, 8))
def test_without_branches_the_tree_is_the_chain_of_likeliest_tokens(lists: Lists, budget: int) -> None:
    tree = grow(lists, budget, branch=False)
    known = survivals(lists)
    assert tree.is_chain
    for node in paths(tree):
        rivals = [(*node[:-1], guess.token) for guess in lists[node[:-1]]]
        assert known[node] == max(known[rival] for rival in rivals)


@given(tables(), st.integers(1, 8), st.floats(0.0, 1.0))
def test_no_node_below_the_floor_is_drafted(lists: Lists, budget: int, floor: float) -> None:
    known = survivals(lists)
    assert all(known[node] >= floor - 1e-12 for node in paths(grow(lists, budget, floor=floor)))


def test_nodes_that_cost_more_than_they_bring_are_not_drafted() -> None:
    lists = {(): [Guess(1, 0.9, 0), Guess(2, 0.05, 1)], (1,): [Guess(3, 0.2, 2)]}
    assert grow(lists, 3, costs=(1.0, 1.1, 1.2, 1.3)).tokens == (1, 3)
    assert grow(lists, 3, costs=(1.0, 1.1, 1.5, 2.0)).tokens == (1,)
    assert grow(lists, 3, costs=(1.0, 2.0, 3.0, 4.0)).tokens == ()


@given(tables(), st.integers(1, 8), st.lists(st.floats(0.0, 0.5), min_size=8, max_size=8))
def test_growing_ends_early_only_where_no_further_node_could_have_paid(
    lists: Lists, budget: int, steps: list[float]
) -> None:
    costs = [1.0]
    for step in steps[:budget]:
        costs.append(costs[-1] + step)
    free = grow(lists, budget)
    known = survivals(lists)
    count = best_count([known[node] for node in paths(free)], costs)
    assert paths(grow(lists, budget, costs=costs)) == paths(free)[:count]


def test_a_grown_tree_knows_the_guesses_at_every_node_that_was_looked_into() -> None:
    lists = {(): [Guess(1, 0.9, 0), Guess(2, 0.05, 1)], (1,): [Guess(3, 0.5, 2)], (1, 3): [Guess(4, 0.1, 3)]}
    tree, grown = best_first(Listed(lists), None, 3, branch=True, floor=0.0, costs=())
    assert tree.tokens == (1, 3, 2)
    assert grown.guesses == [lists[()], lists[1,], lists[1, 3]]
    assert (grown.child(-1, 1), grown.child(0, 3), grown.child(-1, 2), grown.child(0, 2)) == (0, 1, 2, None)


def test_a_record_counts_every_guess_up_to_the_right_one_and_none_after_it() -> None:
    rates = Rates()
    guesses = [Guess(4, 0.5, "a"), Guess(5, 0.5, "b"), Guess(6, 0.5, "c")]
    record(rates, guesses, 5)
    assert rates.rate("a", 0.5) == 0.5 * PRIOR_WEIGHT / (PRIOR_WEIGHT + 1)
    assert rates.rate("b", 0.5) == (1 + 0.5 * PRIOR_WEIGHT) / (PRIOR_WEIGHT + 1)
    assert rates.rate("c", 0.5) == 0.5


def test_a_rate_follows_what_happens_and_forgets_what_happened() -> None:
    rates = Rates()
    for _ in range(300):
        rates.record("kind", True)
    assert rates.rate("kind", 0.1) > 0.85
    for _ in range(300):
        rates.record("kind", False)
    assert rates.rate("kind", 0.1) < 0.1


chances = st.lists(st.tuples(st.integers(0, 4), st.floats(0.0, 1.0)), max_size=4, unique_by=lambda g: g[0])


@given(st.lists(chances, min_size=1, max_size=3))
def test_joined_guesses_name_every_token_once_and_leave_a_chance_that_all_are_wrong(
    parts: list[list[tuple[int, float]]],
) -> None:
    lists = [[Guess(token, chance, token) for token, chance in part] for part in parts]
    joined = join(lists, Rates())
    tokens = [guess.token for guess in joined]
    assert sorted(tokens) == sorted({guess.token for part in lists for guess in part})
    whole = [guess.chance for guess in joined]
    assert all(0.0 <= chance <= 1.0 for chance in whole)
    assert sum(whole) <= CERTAIN + 1e-9
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(whole))
