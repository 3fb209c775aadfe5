from __future__ import annotations

from typing import Any

import pytest

from outrider.planner import cost
from outrider.planner.cost import ROWS, CostPoint, in_turns, measure_curves


class FakeProbe:
    """A machine whose pass takes 1 s and 0.1 s more for each further row, slowing down as it goes."""

    context_limit = 300

    def __init__(self, drift: float = 0.0) -> None:
        self.filled: list[int] = []
        self.order: list[int] = []
        self._drift = drift

    def fill(self, context: int) -> None:
        self.filled.append(context)

    def time(self, rows: int) -> float:
        self.order.append(rows)
        return (1 + 0.1 * (rows - 1)) * (1 + self._drift * len(self.order))


def curve(probe: FakeProbe, **options: Any) -> list[CostPoint]:
    (points,) = measure_curves([probe], **options)
    return points


def test_the_curve_holds_medians_and_ratios_for_every_count_of_rows() -> None:
    points = curve(FakeProbe(), contexts=(256,), repeats=3)
    assert [point.rows for point in points] == list(ROWS)
    assert [point.ratio for point in points] == pytest.approx([1 + 0.1 * (rows - 1) for rows in ROWS])
    assert points[3].milliseconds == pytest.approx(1300)


def test_a_context_without_room_for_the_longest_chain_is_left_out() -> None:
    probe = FakeProbe()
    points = curve(probe, contexts=(64, 269, 2048), rows=(1, 32), repeats=1)
    assert {point.context for point in points} == {64}
    assert probe.filled == [64]


def test_counts_of_rows_take_turns_so_that_drift_hits_all_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "SETTLING_FROM_LONG", 0.0)
    """Timed one after the other, the last count would look dearer on a machine that slows down."""
    probe = FakeProbe(drift=0.01)
    points = curve(probe, contexts=(8,), rows=(1, 2, 4), repeats=6)
    warm, timed = probe.order[:3], probe.order[3:]
    assert warm == [1, 2, 4]
    assert timed == [1, 2, 4, 2, 4, 1, 4, 1, 2] * 2
    assert [point.ratio for point in points] == pytest.approx([1, 1.1, 1.3], rel=0.05)


def test_groups_and_their_items_take_turns() -> None:
    rounds = ["abxyz", "yzxba", "abzxy"]
    assert "".join(in_turns(["ab", "xyz"], 3)) == "".join(rounds)


def test_probes_are_timed_in_the_same_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "SETTLING_FROM_LONG", 0.0)
    """One after the other, the second would look dearer on a machine that slows down."""
    order: list[str] = []

    class NamedProbe(FakeProbe):
        def __init__(self, name: str, factor: float) -> None:
            super().__init__()
            self._name, self._factor = name, factor

        def time(self, rows: int) -> float:
            order.append(f"{self._name}{rows}")
            return self._factor * super().time(rows)

    curves = measure_curves([NamedProbe("a", 1), NamedProbe("b", 2)], contexts=(8,), rows=(1, 2), repeats=2)
    assert order[:4] == ["a1", "a2", "b1", "b2"]
    assert order[4:] == ["a1", "a2", "b1", "b2", "b2", "b1", "a2", "a1"]
    assert [[point.milliseconds for point in points] for points in curves] == [
        pytest.approx([1000, 1100]),
        pytest.approx([2000, 2200]),
    ]
    assert [[point.ratio for point in points] for points in curves] == [pytest.approx([1, 1.1])] * 2
