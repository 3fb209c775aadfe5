"""How often guesses of one kind come true: learned while a sequence runs, from a prior."""

from __future__ import annotations

from collections.abc import Hashable

PRIOR_WEIGHT = 12.0
"""How many observations the prior counts for, unless said otherwise."""
MEMORY = 0.99
"""What an observation still counts for when the next one of its kind arrives."""


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
