"""How often guesses of one kind come true: learned while a sequence runs, from a prior."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

PRIOR_WEIGHT = 12.0
"""How many observations the prior counts for, unless said otherwise."""
MEMORY = 0.99
"""What an observation still counts for when the next one of its kind arrives."""
SUREST = 0.002
"""Nearest to 0 or 1 that a chance with log odds comes."""


class Rates:
    """The chance that a guess comes true, by its kind.

    A guess is tried where all guesses before it, for the same position, were wrong; so its rate is the chance
    given that they were. Every committed token is an observation of all guesses up to the right one, drafted
    or not: the record does not depend on what was drafted, and so not on what a pass costs.
    """

    __slots__ = ("_records", "_weight")

    def __init__(self, weight: float = PRIOR_WEIGHT) -> None:
        self._weight = weight
        self._records: dict[Hashable, list[float]] = {}

    def rate(self, kind: Hashable, prior: float) -> float:
        """Return the estimated chance of a guess whose chance without any record would be `prior`."""
        record = self._records.get(kind)
        if record is None:
            return prior
        hits, tries = record
        return (hits + self._weight * prior) / (tries + self._weight)

    def record(self, kind: Hashable, hit: bool) -> None:
        """Note that a guess of this kind was tried, and whether it was right."""
        record = self._records.get(kind)
        if record is None:
            self._records[kind] = [float(hit), 1.0]
        else:
            record[0] = record[0] * MEMORY + hit
            record[1] = record[1] * MEMORY + 1.0


class Odds:
    """The log odds that a guess comes true, for kinds that are numbers from 0 up, ready to be looked up.

    Here every guess for a committed position is an observation, also those that come after the right one:
    the odds are those of the guess alone. Like `Rates`, they do not depend on what was drafted.
    """

    __slots__ = ("_hits", "_priors", "_tries", "now")

    now: list[float]
    """The logarithm of chance / (1 - chance) for each kind."""

    def __init__(self, priors: Sequence[float]) -> None:
        """`priors`: the chance of each kind before anything was learned."""
        self._priors = priors
        self._hits = [0.0] * len(priors)
        self._tries = [0.0] * len(priors)
        self.now = [log_odds(chance) for chance in priors]

    def record(self, kind: int, hit: bool) -> None:
        """Note whether a guess of this kind was right."""
        hits = self._hits[kind] = self._hits[kind] * MEMORY + hit
        tries = self._tries[kind] = self._tries[kind] * MEMORY + 1.0
        chance = (hits + PRIOR_WEIGHT * self._priors[kind]) / (tries + PRIOR_WEIGHT)
        self.now[kind] = log_odds(chance)


def log_odds(chance: float) -> float:
    """Return the logarithm of chance / (1 - chance), of a chance no nearer to 0 or 1 than `SUREST`."""
    chance = min(max(chance, SUREST), 1 - SUREST)
    return math.log(chance / (1 - chance))
