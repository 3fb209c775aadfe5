"""The best tree of a fixed shape, by how often the first, second, … child is the right one (Sequoia)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Acceptance = Sequence[Sequence[float]]
"""`a[d][b]`: chance that child b of a kept node of depth d is kept (d 0: of the last committed token).

The children of one node exclude each other, so each `a[d]` sums to 1 at most. Deeper nodes share the last
row.
"""


@dataclass(frozen=True, slots=True)
class BestTree:
    """A shape, what it brings, and what it takes."""

    parents: tuple[int, ...]
    """−1 for a child of the last committed token; parents stand before their children."""
    tokens: float
    """Expected tokens of a pass, the one that the target adds included."""
    time: float
    """Time of the step over that of a plain pass."""


def best_tree(
    acceptance: Acceptance,
    costs: Sequence[float],
    *,
    draft_cost: float = 0.0,
    depth: int | None = None,
) -> BestTree:
    """Return the tree of most expected tokens for its time; no node is an answer.

    `costs [N + 1]`: the time of a pass with n nodes over that of one with none, so N is the budget.
    `draft_cost`: the time of one pass of the draft model, one for each level, on the same scale. `depth`: the
    deepest tree looked at (default: N).

    The dynamic programme of Sequoia (2402.12374, section 3.1), with acceptance that may depend on the depth
    and with measured costs, which need not grow evenly.
    """
    budget = len(costs) - 1
    assert budget >= 0
    best = BestTree((), 1.0, costs[0])
    if not acceptance:
        return best
    table = _Table(acceptance, budget)
    for deepest in range(1, (budget if depth is None else min(depth, budget)) + 1):
        for nodes in range(deepest, budget + 1):
            tokens = 1.0 + table.value(nodes, deepest, 0, 0)
            time = costs[nodes] + deepest * draft_cost
            if tokens / time > (best.tokens / best.time) * (1 + 1e-12):
                best = BestTree(tuple(table.parents(nodes, deepest)), tokens, time)
    return best


class _Table:
    """Most expected kept nodes of a forest: siblings from rank b on, under one kept node of depth d.

    value(m, l, d, b) = max over the m nodes' split: y for child b and all below it, the rest for its younger
    siblings; or no child b at all, and then none after it. l is how many levels may still follow.
    """

    def __init__(self, acceptance: Acceptance, budget: int) -> None:
        self._acceptance, self._budget = acceptance, budget
        self._known: dict[tuple[int, int, int, int], tuple[float, int]] = {}

    def value(self, nodes: int, levels: int, depth: int, rank: int) -> float:
        """Return the expected number of nodes kept."""
        return self._solve(nodes, levels, depth, rank)[0]

    def parents(self, nodes: int, levels: int) -> list[int]:
        """Return the shape that reaches `value(nodes, levels, 0, 0)`, level by level."""
        shape: list[int] = []
        forests = [(-1, nodes, 0)]
        for depth in range(levels):
            below: list[tuple[int, int, int]] = []
            for parent, left, rank in forests:
                while left > 0:
                    own = self._solve(left, levels - depth, depth, rank)[1]
                    if own == 0:
                        break
                    below.append((len(shape), own - 1, 0))
                    shape.append(parent)
                    left, rank = left - own, rank + 1
            forests = below
        return shape

    def _solve(self, nodes: int, levels: int, depth: int, rank: int) -> tuple[float, int]:
        row = self._acceptance[min(depth, len(self._acceptance) - 1)]
        if nodes == 0 or levels == 0 or rank >= len(row):
            return 0.0, 0
        key = nodes, levels, min(depth, len(self._acceptance) - 1), rank
        if key not in self._known:
            best, split = 0.0, 0
            for own in range(1, nodes + 1):
                below = self.value(own - 1, levels - 1, depth + 1, 0)
                found = row[rank] * (1 + below) + self.value(nodes - own, levels, depth, rank + 1)
                if found > best + 1e-15:
                    best, split = found, own
            self._known[key] = best, split
        return self._known[key]


def rank_acceptance(tried: Sequence[Sequence[int]], kept: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return `a[d][b]` from counts: of the kept nodes of depth d that had a child b, how often it was kept.

    Ranks that were never tried end a row, depths without a row end the list. Rows are held to a sum of 1.
    """
    table: list[list[float]] = []
    for counts, hits in zip(tried, kept, strict=True):
        row = [hit / count for count, hit in zip(counts, hits, strict=True) if count]
        if not row:
            break
        total = math.fsum(row)
        table.append([share / max(total, 1.0) for share in row])
    return table
