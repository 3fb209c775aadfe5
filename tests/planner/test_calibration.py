"""Chances are corrected by what became of them, for all sequences together, and for the simulation, too."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.planner.breaker import Breaker
from outrider.planner.calibration import HIGHEST, LOWEST, Calibration
from outrider.planner.latency import Latency
from outrider.planner.plan import Plan, can_pay
from outrider.planner.planner import Planner

CURVE = Latency((1, 4, 8, 16), (10.0, 11.0, 14.0, 30.0))
outcomes = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=60)


def taught(pairs: list[tuple[float, bool]]) -> Calibration:
    calibration = Calibration()
    for chance, right in pairs:
        calibration.learn([chance], [right])
    return calibration


@given(outcomes, st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8))
def test_no_correction_changes_the_order_of_chances_or_leaves_their_bounds(
    pairs: list[tuple[float, bool]], chances: list[float]
) -> None:
    calibration = taught(pairs)
    assert LOWEST <= calibration.shift <= HIGHEST
    found = calibration.apply(sorted(chances))
    assert found == sorted(found)
    assert all(0 <= chance <= 1 for chance in found)


@pytest.mark.parametrize("true", [0.1, 0.4, 0.8])
def test_chances_come_near_to_how_often_nodes_are_kept(true: float) -> None:
    chance, calibration = random.Random(1), Calibration()
    for _ in range(2000):
        calibration.learn([0.6], [chance.random() < true])
    assert calibration.apply([0.6])[0] == pytest.approx(true, abs=0.08)


def test_true_chances_are_hardly_corrected() -> None:
    chance, calibration = random.Random(2), Calibration()
    for _ in range(3000):
        told = chance.random()
        calibration.learn([told], [chance.random() < told])
    assert abs(calibration.shift) < 0.3


def test_without_drafts_what_was_learned_fades() -> None:
    calibration = taught([(0.8, False)] * 80)
    before = calibration.shift
    assert before < -1
    for _ in range(100):
        calibration.rest(16)
    assert before / 4 < calibration.shift <= 0


@given(outcomes, st.lists(st.floats(0.0, 0.3), min_size=1, max_size=6))
def test_a_drafter_sees_costs_that_rise_and_a_node_pays_as_it_would_by_its_corrected_chance(
    pairs: list[tuple[float, bool]], steps: list[float]
) -> None:
    calibration = taught(pairs)
    costs = [1.0]
    for step in steps:
        costs.append(costs[-1] + step)
    seen = calibration.told(costs)
    assert list(seen) == sorted(seen)
    for (low, high), more in zip(itertools.pairwise(seen), steps, strict=True):
        assert calibration.apply([high - low])[0] == pytest.approx(more, abs=1e-6)


def test_drafts_that_fail_for_some_are_shared_out_less_to_all() -> None:
    planner, sequences = Planner(8, CURVE), [Breaker() for _ in range(4)]

    def plan() -> Plan:
        found = planner.plan([0] * 4)
        assert found is not None
        return found

    chances = [[0.7, 0.5]] * 4
    assert all(nodes for nodes in plan().share(chances))
    assert can_pay(plan().costs(4, context=0))
    for _ in range(300):
        planner.note(sequences[0], 0.3, 0, [0.9, 0.8], [False, False])
    assert not any(plan().share(chances))
    assert not can_pay(plan().costs(4, context=0))


def test_where_drafters_are_too_modest_more_is_drafted() -> None:
    planner, breaker = Planner(8, Latency((1, 4, 8), (10.0, 11.0, 18.0))), Breaker()
    cautious = planner.plan([0] * 4)
    assert cautious is not None
    assert not any(cautious.share([[0.5]] * 4))
    for _ in range(300):
        planner.note(breaker, 0.3, 1, [0.5], [True])
    bold = planner.plan([0] * 4)
    assert bold is not None
    assert all(bold.share([[0.5]] * 4))
