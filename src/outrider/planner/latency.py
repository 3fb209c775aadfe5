"""The time of a target pass by the rows in it, and what a draft node therefore costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Latency:
    """A measured latency curve: a pass over `rows[i]` rows takes `milliseconds[i]`.

    `rows` rise and begin at 1; `milliseconds` never fall.
    """

    rows: tuple[int, ...]
    milliseconds: tuple[float, ...]

    def __post_init__(self) -> None:
        assert len(self.rows) == len(self.milliseconds) >= 2
        assert self.rows[0] == 1
        assert all(low < high for low, high in zip(self.rows, self.rows[1:], strict=False))
        assert self.milliseconds[0] > 0
        assert list(self.milliseconds) == sorted(self.milliseconds)

    @classmethod
    def of(cls, points: Iterable[tuple[int, float]]) -> Latency:
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
        return cls(rows, tuple(accumulate(means, max)))  # a mean may round below an equal one before it

    def at(self, rows: float) -> float:
        """Return the milliseconds of a pass, linear between measured counts and past the last one."""
        last = len(self.rows) - 1
        high = next((index for index in range(1, last) if self.rows[index] >= rows), last)
        left, right = self.rows[high - 1], self.rows[high]
        share = (rows - left) / (right - left)
        return self.milliseconds[high - 1] * (1 - share) + self.milliseconds[high] * share

    def costs(self, sequences: int, budget: int) -> tuple[float, ...]:
        """Return the time of a pass in which each of `sequences` drafts n nodes over one in which none does.

        [budget + 1], for n = 0 … budget; it begins with 1 and never falls.
        """
        plain = self.at(sequences)
        return tuple(self.at(sequences * (1 + nodes)) / plain for nodes in range(budget + 1))
