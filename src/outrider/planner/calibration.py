"""How sure drafters are against how often they are right, over all sequences of an engine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

PRIOR = 30.0
"""How sure the planner is beforehand that chances are as they are told (a precision)."""
MEMORY = 0.995
"""What a node still counts for when the next one comes."""
RECOVERY = 0.999
"""What is left of the correction after a pass, for each sequence in it: new drafts get a new trial."""
LOWEST, HIGHEST = -4.0, 1.0
"""Bounds of the correction, in log odds: a chance that was told too low loses less than one too high."""
NEAREST = 0.002
"""Nearest to 0 or 1 that a chance with log odds comes."""


class Calibration:
    """A monotone correction of chances, learned from what passes kept of the nodes that they held.

    One number is added to the log odds of every chance: logistic regression with a Gaussian prior around 0,
    updated node by node, the past slowly forgotten. Being monotone, it never puts a child above its parent.
    It is learned from earlier passes alone, and only from nodes that were chosen before their outcome was
    drawn. So no choice looks at a token that it could favour, and no law is moved.
    """

    __slots__ = ("_precision", "_shift")

    def __init__(self) -> None:
        self._shift = 0.0
        self._precision = PRIOR

    @property
    def shift(self) -> float:
        """What is added to log odds: below 0 where drafters are too sure."""
        return self._shift

    def apply(self, chances: Iterable[float]) -> list[float]:
        """Return the corrected chances."""
        return [_moved(chance, self._shift) for chance in chances]

    def told(self, costs: Sequence[float]) -> tuple[float, ...]:
        """Return the costs of 0, 1, … nodes as a drafter should see them that knows of no correction.

        A node pays where its corrected chance exceeds what it adds to the cost, that is where the chance that
        the drafter tells exceeds that of which the addition is the correction. Additions of 1 or more stay:
        no chance pays them.
        """
        if not self._shift or not costs:
            return tuple(costs)
        seen = [costs[0]]
        for before, after in itertools.pairwise(costs):
            more = after - before
            seen.append(seen[-1] + (_moved(more, -self._shift) if more < 1 else more))
        return tuple(seen)

    def learn(self, chances: Sequence[float], right: Sequence[bool]) -> None:
        """Note which nodes of a pass were kept, of what chances before correction."""
        for chance, kept in zip(chances, right, strict=True):
            expected = _moved(min(max(chance, NEAREST), 1 - NEAREST), self._shift)
            self._precision = PRIOR + MEMORY * (self._precision - PRIOR) + expected * (1 - expected)
            shift = self._shift + (kept - expected) / self._precision
            self._shift = min(max(shift, LOWEST), HIGHEST)

    def rest(self, sequences: int) -> None:
        """Note a pass in which so many sequences got a token: without drafts, what was learned fades."""
        self._shift *= RECOVERY**sequences


def _moved(chance: float, shift: float) -> float:
    """Return the chance whose log odds are higher by `shift`; 0 and 1 stay."""
    return chance / (chance + (1 - chance) * math.exp(-shift)) if 0 < chance < 1 else chance
