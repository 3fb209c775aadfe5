"""What speculation brings, worked out: expected tokens of a pass, speed-up, best draft length, and bounds.

`Acceptance` by depth and rank is that of `planner.sequoia`. Drafts here are chains of one length for all
sequences of a batch; the planner of the engine (`planner.plan`) shares nodes out unevenly and does better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outrider.planner.latency import Latency
from outrider.planner.sequoia import Acceptance, BestTree, best_tree

MOST_BATCH = 1024
"""The largest batch at which is looked for the end of what pays."""


def survival(alphas: Sequence[float], length: int) -> list[float]:
    """Return the chance that the draft's first 1 … `length` tokens are all kept, `[length]`.

    `alphas[d]`: the chance that token d of a chain is kept, where all before it were; the last one holds for
    all deeper tokens.
    """
    assert alphas
    found, chance = [], 1.0
    for depth in range(length):
        chance *= alphas[min(depth, len(alphas) - 1)]
        found.append(chance)
    return found


def expected_tokens(alphas: Sequence[float], length: int) -> float:
    """Return E[τ], the expected tokens of a pass that checks a chain of `length` drafted ones.

    The kept ones and one more: 1 + Σ survival. With one α for all depths this is (1 − α^(k+1)) / (1 − α)
    (Leviathan et al., arXiv 2211.17192, equation 1).
    """
    return 1.0 + math.fsum(survival(alphas, length))


@dataclass(frozen=True, slots=True)
class Costs:
    """What passes cost: the target's curve, and the draft model's (None: guesses that take no pass)."""

    target: Latency
    draft: Latency | None = None
    context: int = 0
    """Cached tokens of every sequence."""

    def verify(self, batch: int, nodes: float) -> float:
        """Return the milliseconds of a target pass that checks `nodes` drafted tokens of each sequence."""
        rows = batch * (1 + nodes)
        return self.target.at(rows, rows * self.context, batch * self.context)

    def drafting(self, batch: int) -> float:
        """Return the milliseconds of one draft pass: a row for each sequence."""
        return 0.0 if self.draft is None else self.draft.at(batch, batch * self.context, batch * self.context)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What drafts of one length bring in a batch."""

    batch: int
    length: int
    """Drafted tokens of each sequence, k."""
    tokens: float
    """Expected tokens of a pass for each sequence."""
    milliseconds: float
    """Time of a step: k draft passes and one pass over batch · (1 + k) rows."""
    speedup: float
    """Tokens for their time, over those of plain decoding in the same batch."""


def forecast(costs: Costs, alphas: Sequence[float], batch: int, length: int) -> Forecast:
    """Return what drafts of `length` tokens bring: E[τ] · T(B) / (T(B (1 + k)) + k c).

    Theorem 3.8 of Leviathan et al. (arXiv 2211.17192), where a target pass takes the same time whatever it
    checks; here its time is measured, and grows with its rows.
    """
    tokens = expected_tokens(alphas, length)
    milliseconds = costs.verify(batch, length) + length * costs.drafting(batch)
    return Forecast(batch, length, tokens, milliseconds, tokens * costs.verify(batch, 0) / milliseconds)


def best_length(costs: Costs, alphas: Sequence[float], batch: int, longest: int) -> Forecast:
    """Return the forecast of the length from 0 to `longest` with the highest speed-up, the shortest of these.

    Length 0 is plain decoding, whose speed-up is 1: it is the answer where no draft pays.
    """
    every = (forecast(costs, alphas, batch, length) for length in range(longest + 1))
    best = next(every)
    for other in every:
        if other.speedup > best.speedup * (1 + 1e-12):
            best = other
    return best


def stops_paying(costs: Costs, alphas: Sequence[float], longest: int, most: int = MOST_BATCH) -> int | None:
    """Return the least batch for which no draft pays; None where one still pays for every batch to `most`."""
    every = range(1, most + 1)
    return next((b for b in every if best_length(costs, alphas, b, longest).length == 0), None)


def best_shape(costs: Costs, acceptance: Acceptance, batch: int, budget: int) -> BestTree:
    """Return the best tree of up to `budget` nodes for each sequence of a batch (see `best_tree`).

    Where `acceptance` tells of one rank only, that is the best chain.
    """
    plain = costs.verify(batch, 0)
    by_nodes = [costs.verify(batch, nodes) / plain for nodes in range(budget + 1)]
    return best_tree(acceptance, by_nodes, draft_cost=costs.drafting(batch) / plain)


@dataclass(frozen=True, slots=True)
class Bound:
    """A pass against what this machine can do: the longer of the two times is what it cannot go below."""

    rows: int
    bytes: int
    operations: int
    memory: float
    """Milliseconds of reading the bytes."""
    compute: float | None
    """Milliseconds of the operations; None where their rate is not known."""
    measured: float
    """Milliseconds of such a pass on the latency curve."""

    @property
    def limit(self) -> str | None:
        """Tell which of the two is longer, "memory" or "compute"; None where one is not known."""
        if self.compute is None:
            return None
        return "memory" if self.memory >= self.compute else "compute"


@dataclass(frozen=True, slots=True)
class Work:
    """What a model's passes read and compute."""

    weight_bytes: int
    cache_bytes: int
    """Keys and values that one sequence's rows see."""
    weights: int
    """Numbers in the matrices that every row is multiplied with."""


def operation_rate(latency: Latency, weights: int) -> float | None:
    """Return the operations a millisecond of long passes: two for each weight and row.

    Taken from the slope of the curve's upper half. None where it is flat there.
    """
    last = latency.rows[-1]
    start = max(rows for rows in latency.rows if 2 * rows <= last)
    more = latency.milliseconds[-1] - latency.at(start)
    return 2 * weights * (last - start) / more if more > 0 else None


def bounds(
    costs: Costs, work: Work, rows: Iterable[int], *, bandwidth: float, rate: float | None
) -> list[Bound]:
    """Return the bounds of one sequence's passes over each count of rows (roofline, Williams et al. 2009).

    `bandwidth`: bytes a millisecond; `rate`: operations a millisecond. Every pass reads all weights and the
    sequence's keys and values once; a row takes two operations for each weight. Attention's are left aside.
    """
    size = work.weight_bytes + work.cache_bytes
    found = []
    for count in rows:
        operations = 2 * work.weights * count
        compute = None if rate is None else operations / rate
        measured = costs.target.at(count, count * costs.context, costs.context)
        found.append(Bound(count, size, operations, size / bandwidth, compute, measured))
    return found
