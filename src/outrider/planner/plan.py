"""How many draft nodes a pass holds, and whose: as many as bring the most tokens for their time.

A pass with none gives one token to each of its S sequences. Its rate, S tokens in T(S) milliseconds, is what
time is worth: K nodes that lengthen a pass by D ms cost D · S / T(S) tokens, and pay where more than that is
expected to be kept of them. Rows that read a prompt share the pass; they make its time longer, not its worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from outrider.planner.calibration import Calibration
from outrider.planner.latency import Latency

SUREST = 0.9
"""Chance of being kept that a node has at best."""


class Plan:
    """What draft nodes of one pass cost, and which of them are worth it."""

    def __init__(
        self,
        latency: Latency,
        contexts: Sequence[int],
        reading: int = 0,
        calibration: Calibration | None = None,
    ) -> None:
        """`contexts`: cached tokens of each sequence that gets a token; `reading`: rows that only read.

        `calibration`: what is known of drafters' chances; None takes them as they are told.
        """
        assert contexts
        self._latency = latency
        self._contexts = contexts
        self._calibration = Calibration() if calibration is None else calibration
        self._rows = reading + len(contexts)
        self._rate = len(contexts) / latency.at(len(contexts), sum(contexts), sum(contexts))
        self._per_key = latency.per_key * self._rate
        self._prices = [0.0]

    def costs(self, budget: int, *, context: int, drafting: int = 1) -> tuple[float, ...]:
        """Return what n nodes of one sequence cost, for n = 0 … budget, where a pass with none counts as 1.

        [budget + 1]; it never falls, and n nodes pay where they bring tokens to more than this, going by the
        chances that drafters tell (see `Calibration.told`). `drafting`: sequences that draft as many nodes
        each, 1 where nobody else does.
        """
        prices, key = self._prices_up_to(budget * drafting), context * self._per_key
        true = [1 + prices[nodes * drafting] / drafting + key * nodes for nodes in range(budget + 1)]
        return self._calibration.told(true)

    def price(self, nodes: int, keys: float) -> float:
        """Return the tokens that all sequences could have had in the time of `nodes` draft nodes.

        `keys`: cached tokens that these look back at, summed.
        """
        return self._prices_up_to(nodes)[nodes] + self._per_key * keys

    def tokens(self, milliseconds: float) -> float:
        """Return the tokens that all sequences could have had in this time."""
        return milliseconds * self._rate

    def bill(self, drafts: Sequence[tuple[int, int]]) -> list[float]:
        """Return each draft's part of what the nodes of all of them cost, in tokens.

        `drafts`: the nodes of each that the pass holds, and the cached tokens of its sequence.
        """
        nodes = sum(held for held, _ in drafts)
        each = self.price(nodes, sum(held * cached for held, cached in drafts)) / nodes if nodes else 0.0
        return [each * held for held, _ in drafts]

    def share(self, chances: Sequence[Sequence[float]], fixed: int = 0) -> list[list[int]]:
        """Return which nodes of each sequence the pass holds, in rising order.

        `chances[b][i]`: that node i of sequence b is kept, as its drafter tells it, at most that of its
        parent, which comes before it. `fixed`: nodes that are held in any case, and taken to be just worth
        their time. All nodes are ranked together; as many of the likeliest as bring the most tokens for their
        time are taken, so a parent is never left out for its child.
        """
        known = [self._calibration.apply(nodes) for nodes in chances]
        ranked = sorted(
            (-chance, node, b) for b, nodes in enumerate(known) for node, chance in enumerate(nodes)
        )
        sequences = len(self._contexts)
        tokens = sequences + self.price(fixed, 0)
        keys = accumulate(self._contexts[b] for _, _, b in ranked)
        best, count = 1.0, 0
        prices = self._prices_up_to(fixed + len(ranked))
        for taken, ((negative, _, _), looked) in enumerate(zip(ranked, keys, strict=True), start=1):
            tokens -= negative
            rate = tokens / (sequences + prices[fixed + taken] + self._per_key * looked)
            if rate > best:
                best, count = rate, taken
        held: list[list[int]] = [[] for _ in chances]
        for _, node, b in ranked[:count]:
            held[b].append(node)
        return [sorted(nodes) for nodes in held]

    def _prices_up_to(self, nodes: int) -> list[float]:
        """Return the prices of 0 … nodes (or more) draft nodes that look back at nothing."""
        if len(self._prices) <= nodes:
            base = self._latency.at(self._rows)
            counts = range(len(self._prices), nodes + 1)
            self._prices += [(self._latency.at(self._rows + count) - base) * self._rate for count in counts]
        return self._prices


def can_pay(costs: Sequence[float], price: float = 0.0) -> bool:
    """Tell whether nodes that cost so much could bring more than that, were each kept as surely as any is.

    `costs`: as `Plan.costs` tells; empty where nodes are free. `price`: of the draft itself, in tokens.
    """
    return not costs or any(cost + price < 1 + SUREST * nodes for nodes, cost in enumerate(costs))
