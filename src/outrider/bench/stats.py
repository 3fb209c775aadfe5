"""Figures from measurements: pooled speeds, and paired ratios with their bootstrap interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    """A median with the 95 % bootstrap interval around it."""

    median: float
    low: float
    high: float


def pooled_speed(tokens: Sequence[int], seconds: Sequence[float]) -> float | None:
    """Return all tokens over all seconds; None where no time was spent."""
    total = sum(seconds)
    return sum(tokens) / total if total > 0 else None


def bootstrap_median(ratios: Sequence[float], *, seed: int = 0) -> Interval | None:
    """Return the median of paired ratios and its 95 % percentile interval (Efron 1979), None of nothing.

    The prompts are resampled, each with its pair of measurements, so what differs between prompts does not
    hide what differs between drafters. The same seed gives the same interval.
    """
    if not ratios:
        return None
    values = np.asarray(ratios, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(values), size=(RESAMPLES, len(values)))
    medians = np.median(values[picks], axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return Interval(float(np.median(values)), float(low), float(high))


def add_counts(rows: Sequence[Sequence[int]]) -> list[int]:
    """Add lists of counts of different lengths, position by position."""
    return [sum(row[i] for row in rows if i < len(row)) for i in range(max(map(len, rows), default=0))]
