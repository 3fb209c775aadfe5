"""Curves to simulate with."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from outrider.bench.curves import PUBLISHED, mean_over_median, read_latency, reading_latency, scaled
from outrider.cache.base import Cache
from outrider.errors import LoadError
from outrider.models.base import Batch
from outrider.models.toy import ToyTarget
from outrider.planner.latency import Latency

CURVE = Latency((1, 2, 64), (1.0, 2.0, 3.0), 0.5, 0.25)


def test_passes_that_read_are_timed_as_far_as_the_context_reaches() -> None:
    assert reading_latency(ToyTarget(8)).rows == (1, 8, 16, 32, 64, 128, 256)
    assert reading_latency(ToyTarget(8, context_limit=100)).rows == (1, 8, 16, 32, 64)
    assert reading_latency(ToyTarget(8, context_limit=1)).rows == (1, 2)


def test_passes_that_read_ask_for_the_logits_of_one_row() -> None:
    class Watching(ToyTarget):
        wanted: ClassVar[set[tuple[int, ...]]] = set()

        def forward(self, batch: Batch, caches: Sequence[Cache]) -> torch.Tensor:
            self.wanted.add(batch.wanted)
            return super().forward(batch, caches)

    reading_latency(Watching(8, context_limit=20))
    assert Watching.wanted == {(0,), (7,), (15,)}


def test_passes_that_are_held_up_now_and_then_count_in_the_mean() -> None:
    class HeldUp(ToyTarget):
        passes = 0

        def forward(self, batch: Batch, caches: Sequence[Cache]) -> torch.Tensor:
            self.passes += 1
            time.sleep(0.05 if self.passes % 7 == 0 else 0.001)
            return super().forward(batch, caches)

    assert mean_over_median(HeldUp(8, context_limit=64)) > 1.5


def test_a_larger_model_takes_longer_at_everything() -> None:
    assert scaled(CURVE, 2.0) == Latency((1, 2, 64), (2.0, 4.0, 6.0), 1.0, 0.5)


def test_a_curve_is_read_alone_or_from_a_document(tmp_path: Path) -> None:
    file = tmp_path / "curve.json"
    kept = {"rows": [1, 2, 64], "milliseconds": [1, 2, 3], "per_key": 0.5, "per_cached": 0.25}
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
    assert curve.at(100, 12_345, 10_000) == pytest.approx(5.886 + 1.207 + 0.021 * 100 + 39.3e-6 * 10_000)
