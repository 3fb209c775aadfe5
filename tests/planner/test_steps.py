"""What steps of a drafter cost beside the target's passes: measured once, and kept from run to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.models.toy import ToyTarget
from outrider.planner import steps
from outrider.planner.steps import NODES, measure_steps, measured_steps


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SECONDS", "SETTLING"):
        monkeypatch.setattr(steps, name, 0.0)


class Steps:
    """A drafter whose step takes 2 s, and 1 s more for each further node."""

    context_limit = 512

    def __init__(self) -> None:
        self.timed: list[int] = []

    def fill(self, context: int) -> None:
        """Note nothing."""

    def time(self, rows: int) -> float:
        """Take no time, and say how long it was."""
        self.timed.append(rows)
        return 1.0 + rows


def test_steps_cost_what_they_take_beside_a_pass_over_one_row() -> None:
    found = measure_steps(ToyTarget(8), Steps())
    assert found is not None
    assert found.rows == NODES
    assert found.at(8) / found.at(1) == pytest.approx(4.5)
    assert found.at(1) > 100  # a toy's pass takes far less than 2 s


def test_they_are_measured_once_and_kept_for_the_next_run(tmp_path: Path) -> None:
    first = measured_steps(ToyTarget(8), Steps(), {"drafter": "a"}, tmp_path)
    again = Steps()
    assert measured_steps(ToyTarget(8), again, {"drafter": "a"}, tmp_path) == first
    assert again.timed == []
    measured_steps(ToyTarget(8), again, {"drafter": "b"}, tmp_path)
    assert again.timed != []


@pytest.mark.parametrize("damage", ["", "[]", '{"rows": [1]}', '{"rows": [2, 1], "milliseconds": [1, 2]}'])
def test_a_damaged_file_is_replaced(damage: str, tmp_path: Path) -> None:
    measured_steps(ToyTarget(8), Steps(), {}, tmp_path)
    [path] = tmp_path.iterdir()
    path.write_text(damage)
    found = measured_steps(ToyTarget(8), Steps(), {}, tmp_path)
    assert found is not None
    assert found == measured_steps(ToyTarget(8), Steps(), {}, tmp_path)


def test_a_context_without_room_for_a_level_is_not_measured() -> None:
    assert measure_steps(ToyTarget(8, context_limit=20), Steps()) is None
