"""How much to draft: as many nodes as bring the most tokens for their time.

`costs [budget + 1]` holds the time of a target pass with n draft nodes over that of one with none
(`Ask.costs`); empty means that nodes are free. A pass emits one token and those of its draft that are kept,
so n nodes are worth their time where (1 + expected tokens kept) / time is highest (Leviathan et al.
2211.17192, theorem 3.8, with measured costs in place of constants).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence


def best_count(chances: Sequence[float], costs: Sequence[float]) -> int:
    """Return how many nodes, taken in this order, bring the most tokens for their time.

    `chances[i]`: that the pass keeps node i. Of equal rates the one with fewer nodes wins.
    """
    if not costs:
        return len(chances)
    tokens, best, count = 1.0, 1.0 / costs[0], 0
    for nodes, chance in enumerate(chances[: len(costs) - 1], start=1):
        tokens += chance
        if tokens / costs[nodes] > best:
            best, count = tokens / costs[nodes], nodes
    return count


def could_pay(survival: float, expected: float, best: float, nodes: int, costs: Sequence[float]) -> bool:
    """Tell whether more nodes, each kept with a chance of at most `survival`, can bring more for their time.

    `expected`: tokens that a pass over the `nodes` nodes so far brings, 1 included; `best`: the most tokens
    for their time that any number of nodes up to now brings.
    """
    for count in range(nodes + 1, len(costs)):
        expected += survival
        if expected > best * costs[count]:
            return True
    return False


def worth_a_pass(chances: Sequence[float], costs: Sequence[float], pass_cost: float) -> bool:
    """Tell whether one more pass of a draft model, for the next node of a chain, is worth its time.

    `chances`: that each drafted token is kept once those before it are; the next one's survival is
    extrapolated from theirs. `pass_cost`: the time of a draft pass over that of a plain pass.
    """
    drafted = len(chances)
    if drafted == 0:
        return True
    survival = list(itertools.accumulate(chances, operator.mul))
    following: float = survival[-1] ** ((drafted + 1) / drafted)
    time = _cost(costs, drafted) + drafted * pass_cost
    more = _cost(costs, drafted + 1) - _cost(costs, drafted) + pass_cost
    return bool(following * time > (1 + sum(survival)) * more)


def worth_a_node(chances: Sequence[float], costs: Sequence[float], pass_cost: float) -> bool:
    """Tell whether the last of `chances` is worth a node in the target's pass, its draft pass being spent."""
    survival = list(itertools.accumulate(chances, operator.mul))
    before = len(chances) - 1
    time = _cost(costs, before) + (before + 1) * pass_cost
    more = _cost(costs, before + 1) - _cost(costs, before)
    return bool(survival[-1] * time > (1 + sum(survival[:-1])) * more)


def _cost(costs: Sequence[float], nodes: int) -> float:
    return costs[nodes] if costs else 1.0
