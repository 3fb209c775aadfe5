"""The time of a target pass by the rows in it and by what they look back at."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Latency:
    """A measured latency curve: a pass over `rows[i]` rows takes `milliseconds[i]`, over a short text.

    `rows` rise and begin at 1; `milliseconds` never fall. A cached token costs `per_cached` milliseconds once
    a pass, since it is read from memory for all rows of its sequence together, and `per_key` for each row
    that looks at it.
    """

    rows: tuple[int, ...]
    milliseconds: tuple[float, ...]
    per_key: float = 0.0
    per_cached: float = 0.0

    def __post_init__(self) -> None:
        assert len(self.rows) == len(self.milliseconds) >= 2
        assert self.rows[0] == 1
        assert all(low < high for low, high in zip(self.rows, self.rows[1:], strict=False))
        assert self.milliseconds[0] > 0
        assert list(self.milliseconds) == sorted(self.milliseconds)
        assert self.per_key >= 0
        assert self.per_cached >= 0

    @classmethod
    def of(
        cls, points: Iterable[tuple[int, float]], per_key: float = 0.0, per_cached: float = 0.0
    ) -> Latency:
        """Return the curve through measured (rows, milliseconds).

        More rows are never less work, so where times fall they are noise and get their mean: the curve is
        the rising one nearest to the measured one (isotonic regression by pooling adjacent violators).
        """
        rows, times = zip(*sorted(points), strict=True)
        pools: list[tuple[float, int]] = []  # sum and count of times that share a mean
        for value in times:
            total, count = value, 1
            while pools and pools[-1][0] / pools[-1][1] > total / count:
                before, members = pools.pop()
                total, count = total + before, count + members
            pools.append((total, count))
        means = [total / count for total, count in pools for _ in range(count)]
        # A mean may round below an equal one before it.
        return cls(rows, tuple(accumulate(means, max)), max(per_key, 0.0), max(per_cached, 0.0))

    def at(self, rows: float, keys: float = 0.0, cached: float = 0.0) -> float:
        """Return the milliseconds of a pass, linear between measured counts and past the last one.

        `keys`: cached tokens that its rows look back at, summed over the rows; `cached`: summed over the
        sequences. No rows take no time.
        """
        if rows <= 0:
            return 0.0
        high = min(max(bisect_left(self.rows, rows), 1), len(self.rows) - 1)
        left, right = self.rows[high - 1], self.rows[high]
        share = (rows - left) / (right - left)
        time = self.milliseconds[high - 1] * (1 - share) + self.milliseconds[high] * share
        return time + self.looking(keys, cached)

    def looking(self, keys: float, cached: float) -> float:
        """Return the milliseconds that looking back takes; what it looks at is described at `at`."""
        return self.per_key * keys + self.per_cached * cached

    def costs(self, budget: int) -> tuple[float, ...]:
        """Return the time of one sequence's pass with n draft nodes over one with none, n = 0 … budget.

        [budget + 1]; it begins with 1 and never falls.
        """
        return tuple(self.at(1 + nodes) / self.at(1) for nodes in range(budget + 1))
