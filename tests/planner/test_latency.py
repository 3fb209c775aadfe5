"""The latency curve: between measured counts, and kept from run to run."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.models.toy import ToyTarget
from outrider.planner import measured
from outrider.planner.latency import Latency
from outrider.planner.measured import MeasuredLatency, measure_latency

CURVE = Latency((1, 2, 4, 8), (10.0, 11.0, 12.0, 20.0))


def test_between_measured_counts_and_past_the_last_the_curve_is_linear() -> None:
    assert [CURVE.at(rows) for rows in (1, 2, 3, 4, 6, 8, 12)] == [10.0, 11.0, 11.5, 12.0, 16.0, 20.0, 28.0]


def test_times_that_fall_are_noise_and_get_their_mean() -> None:
    assert Latency.of([(4, 11.0), (1, 10.0), (2, 13.0)]) == Latency((1, 2, 4), (10.0, 12.0, 12.0))
    assert Latency.of([(1, 4.0), (2, 2.0), (4, 3.0)]) == Latency((1, 2, 4), (3.0, 3.0, 3.0))


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=8))
def test_a_curve_rises_keeps_the_total_and_leaves_rising_times_alone(times: list[float]) -> None:
    curve = Latency.of(enumerate(times, start=1))
    assert list(curve.milliseconds) == sorted(curve.milliseconds)
    assert sum(curve.milliseconds) == pytest.approx(sum(times))
    assert Latency.of(enumerate(sorted(times), start=1)).milliseconds == pytest.approx(sorted(times))


def test_what_rows_look_back_at_adds_to_their_time() -> None:
    curve = replace(CURVE, per_key=0.001)
    assert curve.at(2, 2000) == 13.0
    assert curve.at(0, 2000) == 0.0


def test_what_a_sequence_holds_is_read_once_for_all_its_rows() -> None:
    curve = replace(CURVE, per_key=0.001, per_cached=0.01)
    assert curve.at(2, 2000, 1000) == 11.0 + 2.0 + 10.0
    assert curve.at(2) == 11.0


def test_costs_begin_with_one() -> None:
    assert CURVE.costs(3) == (1.0, 1.1, 1.15, 1.2)
    assert CURVE.costs(0) == (1.0,)


def test_a_target_with_room_tells_what_looking_far_back_costs() -> None:
    class Slow(ToyTarget):
        def forward(self, batch, caches):  # type: ignore[no-untyped-def]
            time.sleep(2e-8 * len(batch.tokens) * caches[0].length)
            return super().forward(batch, caches)

    found = measure_latency(Slow(8, context_limit=2048))
    assert found.per_key > 1e-5
    assert found.per_cached < found.per_key


def test_a_target_that_reads_its_cache_once_a_pass_is_told_from_one_that_reads_it_for_each_row() -> None:
    class Slow(ToyTarget):
        def forward(self, batch, caches):  # type: ignore[no-untyped-def]
            time.sleep(1e-6 * caches[0].length)
            return super().forward(batch, caches)

    found = measure_latency(Slow(8, context_limit=2048))
    assert found.per_cached > 5e-4
    assert found.per_key < found.per_cached / 4


def test_a_target_is_measured_from_one_row_up() -> None:
    latency = measure_latency(ToyTarget(8))
    assert latency.rows == (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    assert latency.at(1) > 0


@pytest.mark.parametrize("limit", [1, 2, 5, 16, 17])
def test_a_target_of_a_short_context_is_measured_as_far_as_it_reaches(limit: int) -> None:
    assert measure_latency(ToyTarget(8, context_limit=limit)).at(1) > 0


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy's passes take as long as they take; nothing here depends on how well they are timed."""
    for name in ("SECONDS", "SETTLING", "SETTLING_LONG"):
        monkeypatch.setattr(measured, name, 0.0)


class Counted(ToyTarget):
    passes = 0

    def forward(self, batch, caches):  # type: ignore[no-untyped-def]
        self.passes += 1
        return super().forward(batch, caches)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "latency"


def kept(place: Path) -> Path:
    [path] = place.iterdir()
    return path


def test_a_curve_is_measured_once_and_kept_for_the_next_run(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "_is_quieter", lambda *_: False)  # no quieter than before
    first = MeasuredLatency(ToyTarget(8), {"model": "toy"}, place)
    assert first.get() is first.get()
    target = Counted(8)
    assert MeasuredLatency(target, {"model": "toy"}, place).get() == first.get()
    assert target.passes == 0
    assert MeasuredLatency(target, {"model": "other"}, place).get() != first.get()
    assert target.passes > 0
    assert len(list(place.iterdir())) == 2


def test_a_curve_from_a_busy_moment_is_measured_again(place: Path) -> None:
    MeasuredLatency(ToyTarget(8), {}, place).get()
    slow = Latency((1, 2), (1e6, 1e6))
    kept(place).write_text(json.dumps(asdict(slow)))
    assert MeasuredLatency(ToyTarget(8), {}, place).get().at(1) < 1e6
    assert json.loads(kept(place).read_text())["milliseconds"][0] < 1e6


def test_a_curve_whose_longer_passes_were_disturbed_is_measured_again(place: Path) -> None:
    MeasuredLatency(ToyTarget(8), {}, place).get()
    kept(place).write_text(json.dumps(asdict(Latency((1, 8), (1e-9, 1e6)))))
    assert MeasuredLatency(ToyTarget(8), {}, place).get().at(8) < 1e6


@pytest.mark.parametrize(("seconds", "furthest"), [(3.0, 1024), (0.6, 300), (0.01, 256)])
def test_a_slow_target_is_not_read_far_into_for_the_cost_of_looking_back(
    seconds: float, furthest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(ToyTarget):
        furthest = 0

        def forward(self, batch, caches):  # type: ignore[no-untyped-def]
            self.furthest = max(self.furthest, caches[0].length)
            time.sleep(0.002 * len(batch.tokens) if len(batch.tokens) == 64 else 0)
            return super().forward(batch, caches)

    monkeypatch.setattr(measured, "FAR_SECONDS", seconds)
    slow = Slow(8, context_limit=4096)
    measure_latency(slow)
    assert furthest - 30 <= slow.furthest <= furthest


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", "{}", '{"rows": [1], "milliseconds": [1]}', '{"rows": [2, 1], "milliseconds": [1, 2]}'],
)
def test_a_damaged_file_is_replaced(place: Path, damage: str) -> None:
    MeasuredLatency(ToyTarget(8), {}, place).get()
    path = kept(place)
    path.write_text(damage)
    latency = MeasuredLatency(ToyTarget(8), {}, place).get()
    assert tuple(json.loads(path.read_text())["rows"]) == latency.rows


def test_a_directory_that_cannot_be_written_costs_only_the_measurement(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert MeasuredLatency(ToyTarget(8), {}, blocked / "latency").get().at(1) > 0
    assert MeasuredLatency(ToyTarget(8), {}, None).get().at(1) > 0


def test_a_pass_is_timed_after_passes_over_as_many_rows_and_long_ones_come_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Long passes slow the next ones down, and drive weights out of a cache that holds them otherwise."""

    class Watching(ToyTarget):
        seen: ClassVar[list[int]] = []

        def forward(self, batch, caches):  # type: ignore[no-untyped-def]
            self.seen.append(len(batch.tokens))
            return super().forward(batch, caches)

    monkeypatch.setattr(measured, "SETTLING", 0.001)
    measure_latency(Watching(8, context_limit=100))
    timed = Watching.seen[Watching.seen.index(1) + 1 :]
    runs = [(rows, len(list(passes))) for rows, passes in itertools.groupby(timed)]
    few = [rows for rows, _ in runs if rows <= 16]
    assert all(count > measured.TIMED for rows, count in runs if rows <= 16)
    assert [rows for rows, _ in runs][: len(few)] == few
    assert [rows for rows, _ in runs][len(few) :] == [24, 32, 48, 64] * measured.FEWEST_ROUNDS
