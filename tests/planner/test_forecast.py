"""What speculation brings, worked out: the same as by enumerating every outcome and trying every length."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.planner.forecast import (
    Costs,
    Work,
    best_length,
    best_shape,
    bounds,
    expected_tokens,
    forecast,
    operation_rate,
    stops_paying,
)
from outrider.planner.latency import Latency

CURVE = Latency((1, 2, 4, 8), (10.0, 11.0, 12.0, 20.0))
DRAFT = Latency((1, 2), (2.0, 3.0))

chances = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4)
curves = st.lists(st.floats(0.1, 10.0), min_size=4, max_size=4).map(
    lambda more: Latency((1, 3, 6, 12), tuple(itertools.accumulate(more)))
)
costs = st.builds(Costs, curves, st.none() | curves, st.integers(0, 3))


@given(chances, st.integers(0, 6))
def test_expected_tokens_are_the_mean_over_every_way_a_draft_can_be_kept(
    alphas: list[float], length: int
) -> None:
    total = 0.0
    for kept in itertools.product((False, True), repeat=length):
        own = [alphas[min(depth, len(alphas) - 1)] for depth in range(length)]
        chance = math.prod(a if yes else 1 - a for a, yes in zip(own, kept, strict=True))
        total += chance * (1 + len(list(itertools.takewhile(bool, kept))))
    assert expected_tokens(alphas, length) == pytest.approx(total)


@given(st.floats(0.0, 0.99), st.integers(0, 12))
def test_with_one_chance_for_all_depths_the_sum_is_the_published_closed_form(alpha: float, k: int) -> None:
    assert expected_tokens([alpha], k) == pytest.approx((1 - alpha ** (k + 1)) / (1 - alpha))


def test_a_forecast_sets_tokens_against_the_time_of_the_pass_and_of_the_draft_passes() -> None:
    found = forecast(Costs(CURVE, DRAFT), [0.5], batch=2, length=3)
    assert (found.tokens, found.milliseconds) == (1.875, 20.0 + 3 * 3.0)
    assert found.speedup == pytest.approx(1.875 * 11.0 / 29.0)


def test_what_rows_look_back_at_makes_both_models_slower() -> None:
    long = Costs(replace(CURVE, per_key=0.001), replace(DRAFT, per_key=0.01), context=100)
    assert long.verify(2, 3) == pytest.approx(20.0 + 0.001 * 8 * 100)
    assert long.drafting(2) == pytest.approx(3.0 + 0.01 * 2 * 100)


@given(costs, chances, st.integers(1, 4), st.integers(0, 6))
def test_no_other_length_is_faster_than_the_best_one(
    costs: Costs, alphas: list[float], batch: int, longest: int
) -> None:
    best = best_length(costs, alphas, batch, longest)
    every = [forecast(costs, alphas, batch, length) for length in range(longest + 1)]
    assert best == every[best.length]
    assert best.speedup >= max(other.speedup for other in every) * (1 - 1e-9)
    assert best.speedup >= every[0].speedup == 1


@given(costs, chances, st.integers(0, 4))
def test_the_batch_at_which_drafting_stops_is_the_first_where_no_length_pays(
    costs: Costs, alphas: list[float], longest: int
) -> None:
    pays = [
        any(forecast(costs, alphas, b, k).speedup > 1 + 1e-12 for k in range(longest + 1))
        for b in range(1, 9)
    ]
    expected = pays.index(False) + 1 if False in pays else None
    assert stops_paying(costs, alphas, longest, most=8) == expected


@given(costs, chances, st.integers(1, 4), st.integers(0, 5))
def test_with_one_rank_the_best_shape_is_the_best_chain(
    costs: Costs, alphas: list[float], batch: int, budget: int
) -> None:
    chain = best_length(costs, alphas, batch, budget)
    tree = best_shape(costs, [[alpha] for alpha in alphas], batch, budget)
    assert tree.parents == tuple(range(-1, len(tree.parents) - 1))
    assert tree.tokens / tree.time == pytest.approx(chain.speedup)


def test_a_second_choice_that_is_often_right_makes_a_tree_better_than_any_chain() -> None:
    flat = Costs(Latency((1, 2, 64), (10.0, 10.1, 11.0)))
    tree = best_shape(flat, [[0.5, 0.4]], 1, 6)
    assert tree.parents.count(-1) == 2
    assert tree.tokens / tree.time > best_length(flat, [0.5], 1, 6).speedup


def test_the_rate_of_operations_is_the_slope_where_passes_are_long() -> None:
    assert operation_rate(CURVE, weights=100) == pytest.approx(2 * 100 * 4 / 8.0)
    assert operation_rate(Latency((1, 2), (1.0, 3.0)), weights=5) == pytest.approx(2 * 5 / 2.0)
    assert operation_rate(Latency((1, 2, 4), (1.0, 3.0, 3.0)), weights=5) is None


def test_short_passes_are_bound_by_memory_and_long_ones_by_operations() -> None:
    work = Work(weight_bytes=900, cache_bytes=100, weights=50)
    found = bounds(Costs(CURVE), work, (1, 2, 8), bandwidth=250.0, rate=50.0)
    assert [(bound.bytes, bound.operations) for bound in found] == [(1000, 100), (1000, 200), (1000, 800)]
    assert [(bound.memory, bound.compute) for bound in found] == [(4.0, 2.0), (4.0, 4.0), (4.0, 16.0)]
    assert [bound.limit for bound in found] == ["memory", "memory", "compute"]
    assert [bound.measured for bound in found] == [10.0, 11.0, 20.0]


def test_without_a_rate_no_pass_is_said_to_be_bound_by_either() -> None:
    [bound] = bounds(Costs(CURVE), Work(900, 100, 50), (1,), bandwidth=250.0, rate=None)
    assert (bound.compute, bound.limit) == (None, None)
