"""Every outcome of a run's random decisions, with its exact rational probability."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from torch import Tensor

from outrider.sampling.draws import Draws, SharesNoise
from outrider.types import Law, Number

Text = tuple[int, ...]


class Outcome:
    """One way in which all decisions can fall; `weight` is its probability."""

    def __init__(self, script: Sequence[int]) -> None:
        self.weight = Fraction(1)
        self._script, self._options = list(script), list[list[Fraction]]()
        self.memory: dict[Hashable, list[int]] = {}
        self.bounds: dict[Hashable, tuple[Fraction, Fraction]] = {}

    def choose(self, probabilities: Sequence[Fraction]) -> int:
        """Take the next branch: the scripted one, then always the first that is possible."""
        assert sum(probabilities) == 1
        step = len(self._options)
        self._options.append(list(probabilities))
        if step == len(self._script):
            self._script.append(next(i for i, p in enumerate(probabilities) if p > 0))
        self.weight *= probabilities[self._script[step]]
        return self._script[step]

    def next_script(self) -> list[int] | None:
        """Return the choices that lead to the outcome after this one; None after the last."""
        for step in reversed(range(len(self._options))):
            for choice in range(self._script[step] + 1, len(self._options[step])):
                if self._options[step][choice] > 0:
                    return [*self._script[:step], choice]
        return None


class EnumeratingDraws:
    """Draws of one step that follow every branch with its probability; asking twice gives the same answer.

    `scope` names the randomness: draws with equal scopes share it; None is the noise that target and drafter
    share, which depends on the position alone. Different laws at one place branch apart from each other,
    which covers more outcomes than any shared noise has, each law with its probabilities. Floats are taken as
    the rationals that they are.
    """

    def __init__(self, outcome: Outcome, scope: Hashable | None, base: int) -> None:
        self._outcome, self._scope, self._base = outcome, scope, base

    def accepts(self, probability: Number, node: int) -> bool:
        """Decide whether a uniform number lies below `probability`, given what is known of it already."""
        probability = min(Fraction(probability), Fraction(1))
        key = ("accepts", self._scope, self._base, node)
        low, high = self._outcome.bounds.get(key, (Fraction(0), Fraction(1)))
        if not low < probability < high:
            return probability >= high
        passed = (probability - low) / (high - low)
        accepted = self._outcome.choose([passed, 1 - passed]) == 0
        self._outcome.bounds[key] = (low, probability) if accepted else (probability, high)
        return accepted

    def token(self, law: Law, depth: int) -> int:
        """Draw a token; the same law at the same place gives the same token."""
        return self._arrivals(law, 1, depth, None)[0]

    def tokens(self, law: Law, count: int, depth: int, node: int) -> list[int]:
        """Draw different tokens in turn, each from the law without those before it."""
        return self._arrivals(law, count, depth, None if self._scope is None else node)

    def _arrivals(self, law: Law, count: int, depth: int, node: int | None) -> list[int]:
        values: Sequence[Any] = law.tolist() if isinstance(law, Tensor) else law
        rational = [Fraction(value) for value in values]
        arrived = self._outcome.memory.setdefault(
            (self._scope, self._base + depth, node, tuple(rational)), []
        )
        while len(arrived) < count:
            left = [0 if token in arrived else value for token, value in enumerate(rational)]
            mass = Fraction(sum(left))
            if mass == 0:
                break
            arrived.append(self._outcome.choose([value / mass for value in left]))
        return arrived[:count]


class EnumeratingSource:
    """The draws of a whole request in one outcome; implements `outrider.sampling.draws.DrawSource`."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def for_rule(self, rule: SharesNoise, base: int) -> Draws:
        """Return what `rule` draws from in the step that begins with `base` committed tokens."""
        return EnumeratingDraws(self._outcome, None if rule.shares_noise else (base, "rule"), base)

    def for_draft(self, rule: SharesNoise, base: int) -> Draws:
        """Return what a drafter draws from: the noise that all share, or noise of its own for each step."""
        return EnumeratingDraws(self._outcome, None if rule.shares_noise else (base, "draft"), base)


def outcomes(run: Callable[[Outcome], Text]) -> Iterator[tuple[Text, Outcome]]:
    """Yield what `run` returns in every outcome of the draws it makes."""
    script: list[int] | None = []
    while script is not None:
        outcome = Outcome(script)
        yield run(outcome), outcome
        script = outcome.next_script()


def law_of(run: Callable[[Outcome], Text]) -> dict[Text, Fraction]:
    """Return the exact joint law of what `run` returns."""
    law: defaultdict[Text, Fraction] = defaultdict(Fraction)
    for text, outcome in outcomes(run):
        law[text] += outcome.weight
    return dict(law)
