"""How a pass is shared out: what nodes cost, whose are held, and when drafting stops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.planner.breaker import ALLOWANCE, DEEPEST, MOST, STAKE, START, Breaker, Breakers
from outrider.planner.latency import Latency
from outrider.planner.plan import Plan, can_pay
from outrider.planner.planner import Planner

FLAT = Latency((1, 2), (10.0, 10.0))
STEEP = Latency((1, 2), (10.0, 20.0))
CURVE = Latency((1, 4, 8, 16), (10.0, 11.0, 14.0, 30.0))


def falling(steps: Sequence[float]) -> list[float]:
    return list(itertools.accumulate(steps, lambda a, b: a * b))


chains = st.lists(st.lists(st.floats(0.0, 1.0), max_size=3).map(falling), min_size=1, max_size=3)
curves = st.lists(st.floats(0.1, 10.0), min_size=4, max_size=4).map(
    lambda more: Latency((1, 3, 6, 12), tuple(itertools.accumulate(more)))
)


@given(curves, chains, st.integers(0, 3))
def test_no_other_choice_of_nodes_brings_more_tokens_for_its_time(
    curve: Latency, chances: list[list[float]], reading: int
) -> None:
    plan = Plan(curve, [0] * len(chances), reading)

    def rate(held: Sequence[Sequence[int]]) -> float:
        kept = sum(own[node] for own, nodes in zip(chances, held, strict=True) for node in nodes)
        return (len(chances) + kept) / (len(chances) + plan.price(sum(map(len, held)), 0))

    held = plan.share(chances)
    every = itertools.product(*([range(n) for n in range(len(own) + 1)] for own in chances))
    assert rate(held) >= max(map(rate, every)) - 1e-12


def test_the_likeliest_nodes_of_all_sequences_are_held_a_parent_before_its_child() -> None:
    plan = Plan(Latency((1, 2, 5, 9), (10.0, 10.5, 12.0, 40.0)), [0, 0])
    assert plan.share([[0.9, 0.9, 0.1], [0.5, 0.2]]) == [[0, 1], [0]]


def test_nodes_that_cost_nothing_are_all_held_and_those_that_cost_a_pass_never() -> None:
    assert Plan(FLAT, [0, 0]).share([[0.5, 0.1], [0.01]]) == [[0, 1], [0]]
    assert Plan(STEEP, [0, 0]).share([[0.99, 0.9], [1.0]]) == [[], []]


def test_a_node_costs_the_tokens_that_all_could_have_had_in_its_time() -> None:
    plan = Plan(CURVE, [0] * 4)
    assert plan.price(4, 0) == pytest.approx(4 * 3 / 11)
    assert plan.tokens(11.0) == pytest.approx(4.0)
    assert plan.costs(4, context=0)[4] == pytest.approx(1 + 4 * 3 / 11)


def test_alone_costs_are_the_time_over_that_of_a_plain_pass() -> None:
    assert Plan(CURVE, [0]).costs(7, context=0) == pytest.approx(CURVE.costs(7))


def test_where_all_draft_alike_a_node_of_each_is_paid_for_by_each() -> None:
    together = Plan(CURVE, [0] * 4).costs(3, context=0, drafting=4)
    assert together[1] == pytest.approx(14 / 11)
    assert together[3] == pytest.approx(30 / 11)


def test_rows_that_read_make_nodes_no_cheaper_than_their_time() -> None:
    beside = Plan(CURVE, [0], reading=7)
    assert beside.price(8, 0) == pytest.approx((30 - 14) / 10)


def test_nodes_of_a_long_text_cost_more() -> None:
    curve = Latency((1, 2, 4), (10.0, 10.5, 11.5), per_key=0.01)
    assert Plan(curve, [0, 500]).share([[0.5], [0.5]]) == [[0], []]


def test_where_sequences_hold_long_texts_time_is_worth_less_and_nodes_cost_less() -> None:
    curve = replace(CURVE, per_cached=0.01)
    short, long = Plan(curve, [0]), Plan(curve, [1000])
    assert short.price(1, 0) == pytest.approx(2 * long.price(1, 1000))
    assert short.tokens(10.0) == pytest.approx(2 * long.tokens(10.0))


def test_a_bill_is_shared_by_nodes_and_adds_up_to_their_price() -> None:
    curve = replace(CURVE, per_key=0.01)
    plan = Plan(curve, [0, 100, 50])
    bill = plan.bill([(2, 0), (0, 100), (1, 50)])
    assert sum(bill) == pytest.approx(plan.price(3, 50))
    assert bill[0] == pytest.approx(2 * bill[2])
    assert bill[1] == 0
    assert plan.bill([(0, 0)]) == [0.0]


def test_what_is_held_in_any_case_makes_the_rest_dearer() -> None:
    plan = Plan(CURVE, [0])
    assert plan.share([[0.2, 0.2, 0.2]]) == [[0, 1, 2]]
    assert plan.share([[0.2, 0.2, 0.2]], fixed=8) == [[]]


@given(st.integers(1, 20), st.lists(st.floats(0.0, 3.0), min_size=1, max_size=100))
def test_drafts_that_fail_cost_all_sequences_together_a_bounded_part_of_the_time(
    sequences: int, prices: list[float]
) -> None:
    """What a draft costs is known once it is made: those of the step that ends the credit come on top."""
    breakers, own, paid, over = Breakers(), [Breaker() for _ in range(sequences)], 0.0, 0.0
    for price in prices:
        for breaker, allowed in zip(own, breakers.allowed(own), strict=True):
            if allowed:
                over = max(over, price - STAKE)
                breakers.note(breaker, 0, price)
                paid += min(price, STAKE)
    assert paid <= MOST + STAKE + ALLOWANCE * sequences * len(prices) + sequences * max(0.0, over) + 1e-9
    assert paid <= sequences * (START + STAKE - DEEPEST + ALLOWANCE * len(prices)) + 1e-9


def test_at_32_sequences_drafts_that_fail_lose_one_token_in_a_hundred() -> None:
    breakers, own, lost = Breakers(), [Breaker() for _ in range(32)], 0.0
    for _ in range(100):
        for breaker, allowed in zip(own, breakers.allowed(own), strict=True):
            if allowed:
                breakers.note(breaker, 0, 0.3)
                lost += 0.3
    assert lost <= 0.011 * 3200


def test_drafts_that_pay_are_never_stopped_and_one_that_pays_again_is_found() -> None:
    breakers, breaker = Breakers(), Breaker()

    def allows() -> bool:
        return breakers.allowed([breaker])[0]

    for _ in range(200):
        assert allows()
        breakers.note(breaker, 1, 0.9)
    failed = 0
    while allows():
        breakers.note(breaker, 0, 0.5)
        failed += 1
    assert 5 <= failed <= 8
    waited = 1
    while not allows():
        waited += 1
    assert waited <= 0.5 / ALLOWANCE + 1
    breakers.note(breaker, 3, 0.5)
    assert all(allows() for _ in range(10))


def test_a_sequence_that_has_gained_drafts_on_where_the_others_have_lost_what_all_may() -> None:
    breakers, good, others = Breakers(), Breaker(), [Breaker() for _ in range(8)]
    breakers.note(good, 2, 0.5)
    for _ in range(3):
        breakers.allowed([good, *others])
        for other in others:
            breakers.note(other, 0, 0.4)
    assert breakers.credit < 0
    assert breakers.allowed([good, *others]) == [True, *[False] * 8]


def test_waiting_brings_back_no_more_credit_than_a_new_sequence_has() -> None:
    breaker = Breaker()
    for _ in range(1000):
        breaker.rest()
    assert breaker.credit == START
    breaker.note(0, 0.5)
    for _ in range(1000):
        breaker.rest()
    assert breaker.credit == START


def test_where_nodes_are_free_all_may_draft_always() -> None:
    planner, own = Planner(8), [Breaker() for _ in range(40)]
    for _ in range(20):
        assert planner.allowed(own) == [True] * 40
        for breaker in own:
            planner.note(breaker, 0.0, 0, [0.5], [False])


def test_a_draft_can_pay_where_its_surest_nodes_bring_more_than_all_of_it_costs() -> None:
    assert can_pay(())
    assert can_pay((1.0, 1.5))
    assert not can_pay((1.0, 1.5), 0.45)
    assert not can_pay((1.0, 1.95))
    assert can_pay((1.0, 1.95, 2.1))


def test_without_a_curve_there_is_no_plan() -> None:
    assert Planner(8).plan([0]) is None
    assert Planner(8, CURVE).plan([]) is None


def test_the_time_of_a_draft_is_a_mean_that_one_pause_does_not_move_far() -> None:
    planner = Planner(8, CURVE)
    planner.note_asks(0, 5.0)
    assert planner.ask_milliseconds == 0.0
    for _ in range(20):
        planner.note_asks(2, 1.0)
    assert planner.ask_milliseconds == pytest.approx(0.5)
    planner.note_asks(1, 1000.0)
    assert planner.ask_milliseconds <= 0.5 * 1.3 + 1e-9
