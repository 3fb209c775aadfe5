from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.bench.stats import add_counts, bootstrap_median, pooled_speed


def test_a_pooled_speed_weighs_long_answers_more() -> None:
    assert pooled_speed([10, 90], [1, 3]) == 25
    assert pooled_speed([], []) is None
    assert pooled_speed([0], [0.0]) is None


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=20))
def test_the_interval_holds_the_median_and_stays_within_the_data(ratios: list[float]) -> None:
    interval = bootstrap_median(ratios)
    assert interval is not None
    assert min(ratios) <= interval.low <= interval.median <= interval.high <= max(ratios)
    assert interval.median == pytest.approx(float(np.median(ratios)))


def test_the_same_measurements_give_the_same_interval() -> None:
    ratios = [1.0, 1.5, 0.7, 2.0, 1.1]
    assert bootstrap_median(ratios) == bootstrap_median(ratios)
    assert bootstrap_median([]) is None


def test_the_interval_covers_the_true_median_about_as_often_as_it_says() -> None:
    """95 % is what the percentile bootstrap of a median promises for large samples; 40 is near enough."""
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(100):
        interval = bootstrap_median(list(generator.lognormal(0.0, 0.3, size=40)))
        assert interval is not None
        covered += interval.low <= 1.0 <= interval.high
    assert 88 <= covered <= 100


def test_more_prompts_make_the_interval_narrower() -> None:
    generator = np.random.default_rng(2)
    ratios = list(generator.lognormal(0.0, 0.3, size=400))
    few, many = bootstrap_median(ratios[:20]), bootstrap_median(ratios)
    assert few is not None
    assert many is not None
    assert many.high - many.low < few.high - few.low


def test_counts_of_different_lengths_add_up() -> None:
    assert add_counts([(1, 2, 3), (), (10,)]) == [11, 2, 3]
    assert add_counts([]) == []
