"""As many nodes as pay: against trying every count."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.loop.draft.worth import best_count, worth_a_node, worth_a_pass

CHANCES = st.lists(st.floats(0, 1), max_size=8)
COSTS = st.lists(st.floats(0, 1), min_size=8, max_size=8).map(
    lambda steps: [1.0, *accumulate(steps, initial=1.0)]
)


@given(CHANCES, COSTS)
def test_the_best_count_has_the_highest_rate_of_tokens_over_time(
    chances: list[float], costs: list[float]
) -> None:
    rates = [(1 + sum(chances[:count])) / costs[count] for count in range(len(chances) + 1)]
    count = best_count(chances, costs)
    assert rates[count] == pytest.approx(max(rates), rel=1e-12)
    assert all(rate < max(rates) * (1 + 1e-12) for rate in rates[:count])


def test_free_nodes_are_all_worth_drafting() -> None:
    assert best_count([0.5, 0.1, 0.0], ()) == 3


def test_nodes_that_cost_more_than_they_bring_are_not_drafted_even_where_the_first_ones_are_cheap() -> None:
    assert best_count([0.9, 0.8, 0.7], (1.0, 2.0, 3.0, 4.0)) == 0
    assert best_count([0.9, 0.8, 0.7], (1.0, 1.1, 1.2, 4.0)) == 2


def test_a_dear_step_is_taken_where_what_follows_it_pays() -> None:
    """Time jumps at the first node and hardly rises after it, as kernels that work on several rows do."""
    costs = (1.0, 1.6, 1.62, 1.64)
    assert best_count([0.5], costs[:2]) == 0
    assert best_count([0.5, 0.5, 0.5], costs) == 3


def test_a_context_that_cuts_the_budget_cuts_the_count() -> None:
    assert best_count([0.9, 0.9, 0.9], (1.0, 1.01)) == 1


@given(alpha=st.floats(0.05, 0.97), cost=st.floats(0.02, 0.9))
def test_with_one_chance_for_all_tokens_the_chain_stops_at_the_best_length(alpha: float, cost: float) -> None:
    """The best k of the speed-up E[τ] / (1 + k·c), by trying all; at least one token is drafted."""

    def speed(k: int) -> float:
        return sum(alpha**i for i in range(k + 1)) / (1 + k * cost)

    best = max(speed(k) for k in range(1, 200))
    length = next(k for k in range(1, 200) if not worth_a_pass([alpha] * k, (), cost))
    assert speed(length) == pytest.approx(best, rel=1e-9)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=7), COSTS, st.floats(0, 1))
def test_a_node_is_worth_its_row_where_it_raises_the_rate(
    chances: list[float], costs: list[float], pass_cost: float
) -> None:
    survival = list(accumulate(chances, lambda left, right: left * right))
    spent = len(chances) * pass_cost
    without = (1 + sum(survival[:-1])) / (costs[len(chances) - 1] + spent)
    with_it = (1 + sum(survival)) / (costs[len(chances)] + spent)
    if with_it != pytest.approx(without, rel=1e-9):
        assert worth_a_node(chances, costs, pass_cost) == (with_it > without)
