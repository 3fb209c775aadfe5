"""Curves to simulate with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.bench.curves import PUBLISHED, read_latency, scaled, with_reading
from outrider.errors import LoadError
from outrider.models.toy import ToyTarget
from outrider.planner.latency import Latency

CURVE = Latency((1, 2, 64), (1.0, 2.0, 3.0), 0.5)


def test_a_curve_goes_on_where_passes_read_prompts() -> None:
    found = with_reading(ToyTarget(8), CURVE)
    assert found.rows == (1, 2, 64, 128, 256)
    assert found.per_key == 0.5


def test_a_short_context_leaves_a_curve_as_it_is() -> None:
    assert with_reading(ToyTarget(8, context_limit=100), CURVE) == CURVE


def test_a_larger_model_takes_longer_at_everything() -> None:
    assert scaled(CURVE, 2.0) == Latency((1, 2, 64), (2.0, 4.0, 6.0), 1.0)


def test_a_curve_is_read_alone_or_from_a_document(tmp_path: Path) -> None:
    file = tmp_path / "curve.json"
    kept = {"rows": [1, 2, 64], "milliseconds": [1, 2, 3], "per_key": 0.5}
    for written in (kept, {"latency": kept}):
        file.write_text(json.dumps(written), encoding="utf-8")
        assert read_latency(file) == CURVE


@pytest.mark.parametrize(
    "text",
    ["no", "[]", "{}", '{"rows": [1, 2]}', '{"rows": [1, 2], "milliseconds": [2, 1]}', '{"latency": 3}'],
)
def test_what_is_no_curve_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "curve.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(LoadError, match=r"curve\.json"):
        read_latency(file)
    with pytest.raises(LoadError, match="cannot read"):
        read_latency(tmp_path / "none.json")


def test_the_published_curve_is_the_published_line() -> None:
    curve = PUBLISHED["h100-llama-3.1-8b"]
    assert curve.at(100, 10_000) == pytest.approx(5.886 + 1.207 + 0.021 * 100 + 39.3e-6 * 10_000)
