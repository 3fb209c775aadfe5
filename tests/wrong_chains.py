"""Mistakes in rejection sampling on a chain, one class each, and two rules with another promise."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from outrider.loop.accept.arithmetic import acceptance, residual, without
from outrider.loop.accept.coupled import Coupled
from outrider.loop.accept.rejection import Rejection
from outrider.sampling.draws import Draws
from outrider.types import Guarantee, Law, Scored, Verdict


class Variant(Rejection):
    """Rejection sampling with one part exchanged for a mistake."""

    guarantee = Guarantee.SAME_LAW

    def chance(self, p: Law, q: Law | None, token: int) -> Any:
        return acceptance(p, q, token)

    def left(self, p: Law, q: Law | None, token: int) -> Law:
        return residual(p, q, token)

    def row(self, node: int) -> int:
        return node

    def residual_row(self, node: int) -> int:
        return node

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        tree, laws = scored.tree, scored.laws
        for node, token in enumerate(tree.tokens):
            q = tree.law(node)
            if not draws.accepts(self.chance(laws[node], q, token), node):
                left = self.left(laws[self.residual_row(node)], q, token)
                return Verdict(tuple(range(node)), draws.token(left, node))
        bonus = len(tree)
        return Verdict(tuple(range(bonus)), draws.token(laws[self.row(bonus)], bonus))


class FoldedResidual(Variant):
    """|p - q| where (p - q)+ is meant: the clamp is missing, only the sign is dropped."""

    def left(self, p: Law, q: Law | None, token: int) -> Law:
        if q is None:
            return residual(p, q, token)
        pairs: Any = zip(p, q, strict=True)
        folded = [abs(a - b) for a, b in pairs]
        return folded if any(folded) else p


class ResampledFromTarget(Variant):
    """A rejected guess is replaced by a draw from p."""

    def left(self, p: Law, q: Law | None, token: int) -> Law:
        return p


class ResidualConditionedOnGuess(Variant):
    """p without the rejected guess, also where the guess was drawn from q."""

    def left(self, p: Law, q: Law | None, token: int) -> Law:
        return residual(p, None, token)


class AnotherDraftLaw(Variant):
    """The ratio takes a q that is not the one the guess was drawn from (processed against raw logits)."""

    @staticmethod
    def flattened(q: Law | None) -> Law | None:
        if q is None:
            return None
        share = Fraction(1, 4 * len(q))
        plain: Any = q
        return [value * Fraction(3, 4) + share for value in plain]

    def chance(self, p: Law, q: Law | None, token: int) -> Any:
        return acceptance(p, self.flattened(q), token)

    def left(self, p: Law, q: Law | None, token: int) -> Law:
        return residual(p, self.flattened(q), token)


class AcceptedWithoutRatio(Variant):
    """A sampled guess passes with p(x), as if it had not been drawn from q."""

    def chance(self, p: Law, q: Law | None, token: int) -> Any:
        return acceptance(p, None, token)


class InvertedRatio(Variant):
    """q over p."""

    def chance(self, p: Law, q: Law | None, token: int) -> Any:
        return acceptance(p, q, token) if q is None else acceptance(q, p, token)


class ZeroPasses(Variant):
    """A guess of probability zero passes, as with u <= 0 on a coarse grid."""

    def chance(self, p: Law, q: Law | None, token: int) -> Any:
        return acceptance(p, q, token) or Fraction(1, 2**20)


class BonusFromTheRowBefore(Variant):
    """The bonus token is drawn from the law of the last guess's own position."""

    def row(self, node: int) -> int:
        return max(node - 1, 0)


class ResidualOfTheFirstPosition(Variant):
    """The residual is taken from the first row, whichever guess was rejected."""

    def residual_row(self, node: int) -> int:
        return 0


class ResidualOfTheNextPosition(Variant):
    """The residual is taken one row too late."""

    def residual_row(self, node: int) -> int:
        return node + 1


class PointMassAsUniform(Variant):
    """A guess made without a draw is treated as if it had been drawn from a law."""

    @staticmethod
    def spread(p: Law) -> Law:
        return [Fraction(1, len(p))] * len(p)

    def chance(self, p: Law, q: Law | None, token: int) -> Any:
        return acceptance(p, q or self.spread(p), token)

    def left(self, p: Law, q: Law | None, token: int) -> Law:
        return residual(p, q or self.spread(p), token)


class GoesOnAfterRejection(Variant):
    """Guesses behind a rejected one are still considered."""

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        tree, kept = scored.tree, 0
        for node, token in enumerate(tree.tokens):
            q = tree.law(node)
            if draws.accepts(acceptance(scored.laws[node], q, token), node):
                kept = node + 1
        if kept == len(tree):
            return Verdict(tuple(range(kept)), draws.token(scored.laws[kept], kept))
        q = tree.law(kept)
        return Verdict(
            tuple(range(kept)), draws.token(residual(scored.laws[kept], q, tree.tokens[kept]), kept)
        )


WRONG_ON_CHAINS = [
    FoldedResidual,
    ResampledFromTarget,
    ResidualConditionedOnGuess,
    AnotherDraftLaw,
    AcceptedWithoutRatio,
    InvertedRatio,
    ZeroPasses,
    BonusFromTheRowBefore,
    ResidualOfTheFirstPosition,
    ResidualOfTheNextPosition,
    PointMassAsUniform,
    GoesOnAfterRejection,
]


class CoupledToTheDraft(Coupled):
    """Keeps a drafted child with the target's probability instead of asking what the target would draw."""

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        tree, laws = scored.tree, scored.laws
        if len(tree) and draws.accepts(acceptance(laws[0], None, tree.tokens[0]), 0):
            return Verdict((0,), draws.token(laws[1], 1))
        left = without(laws[0], tree.tokens[0]) if len(tree) else laws[0]
        return Verdict((), draws.token(left, 0) if any(left) else tree.tokens[0])


class TakesTheDraft(Rejection):
    """Accepts everything."""

    guarantee = Guarantee.LOSSY

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        nodes = len(scored.tree)
        return Verdict(tuple(range(nodes)), draws.token(scored.laws[nodes], nodes))
