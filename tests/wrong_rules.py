"""Mistakes in rules that go through a tree from the top down, one class each."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from outrider.sampling.draws import Draws
from outrider.types import DraftTree, Scored, Verdict
from slow_rules import Exact, Node, TopDown

ZERO = Fraction(0)


class FoldsTheResidual(TopDown):
    """|P - Q|: the clamp is missing, only the sign is dropped."""

    def rest(self, node: Node, offered: Exact, token: int) -> Exact:
        return [abs(p - q) for p, q in zip(node.law, [*offered, ZERO, ZERO, ZERO], strict=False)]


class ReplacesFromTheTarget(TopDown):
    """What is left of P does not shrink when a sibling is turned down."""

    def rest(self, node: Node, offered: Exact, token: int) -> Exact:
        return node.law


class TakesOnlyTheGuessOut(TopDown):
    """P without the sibling that was turned down, also where it was drawn."""

    def rest(self, node: Node, offered: Exact, token: int) -> Exact:
        return [ZERO if index == token else p for index, p in enumerate(node.law)]


class TriesSiblingsBackwards(TopDown):
    """The last sibling drawn is tried first."""

    def order(self, tree: DraftTree, children: list[int]) -> list[int]:
        return children[::-1]


class TriesTheLikeliestFirst(TopDown):
    """Siblings are sorted by their draft probability."""

    def order(self, tree: DraftTree, children: list[int]) -> list[int]:
        laws: Any = tree.laws or [None] * len(tree)
        return sorted(children, key=lambda c: -laws[c][tree.tokens[c]] if laws[c] else -1)


class ForgetsWhatWasTaken(TopDown):
    """Siblings drawn without replacement are taken as drawn with it."""

    def taken_out(self, law: Sequence[Fraction], tokens: list[int]) -> Exact:
        return list(law)


class DoesNotRenormalise(TopDown):
    """Tokens drawn before are taken out of q, which is left with a mass below 1."""

    def taken_out(self, law: Sequence[Fraction], tokens: list[int]) -> Exact:
        return [ZERO if token in tokens else q for token, q in enumerate(law)]


class TakesOutWhatWasPutBack(TopDown):
    """Siblings drawn with replacement are taken as drawn without it."""

    def offered(self, tree: DraftTree, child: int, gone: list[int]) -> Exact:
        law: Any = tree.law(child)
        taken = [tree.tokens[other] for other in gone if tree.law(other) is not None]
        left = [] if law is None else self.taken_out(law, taken)
        return left if sum(left) else super().offered(tree, child, gone)


class TakesOutGuessesToo(TopDown):
    """Deterministic siblings are taken out of a law that a later sibling was drawn from with them in it."""

    def offered(self, tree: DraftTree, child: int, gone: list[int]) -> Exact:
        law: Any = tree.law(child)
        left = [] if law is None else self.taken_out(law, [tree.tokens[other] for other in gone])
        return left if sum(left) and not tree.replaced else super().offered(tree, child, gone)


class AcceptsWithoutTheRatio(TopDown):
    """A drawn sibling passes with P(x); what is left is (P - Q)+ all the same."""

    def chance(self, node: Node, offered: Exact, token: int) -> Fraction:
        return node.law[token]


class TakesGuessedAsDrawn(TopDown):
    """A guess made without a draw is treated as if it had been drawn evenly."""

    def point(self, child: int, tree: DraftTree, gone: list[int]) -> Exact:
        size = len(super().point(child, tree, gone))
        return [Fraction(1, size)] * size


class InvertsTheRatio(TopDown):
    """Q over P."""

    def chance(self, node: Node, offered: Exact, token: int) -> Fraction:
        return min(offered[token] / node.law[token], Fraction(1)) if node.law[token] else ZERO


class LetsTheImpossiblePass(TopDown):
    """A token of probability zero passes now and then."""

    def chance(self, node: Node, offered: Exact, token: int) -> Fraction:
        return super().chance(node, offered, token) or Fraction(1, 2**20)


class TakesTheBonusFromTheRowAbove(TopDown):
    """After a leaf the token is drawn from the law of the leaf's own position."""

    def ended(self, scored: Scored, node: Node, path: list[int], draws: Draws) -> Verdict:
        law: Any = node.law
        if path and not scored.tree.children(path[-1]):
            law = scored.laws[scored.tree.parents[path[-1]] + 1]
        return Verdict(tuple(path), draws.token(law, len(path)))


class MixesUpTheRows(TopDown):
    """Rows are taken in the order of the nodes, without the one of the committed text."""

    def row(self, node: int) -> int:
        return max(node, 0)


WRONG_TOP_DOWN: list[type[Any]] = [
    FoldsTheResidual,
    ReplacesFromTheTarget,
    TakesOnlyTheGuessOut,
    TriesSiblingsBackwards,
    TriesTheLikeliestFirst,
    ForgetsWhatWasTaken,
    DoesNotRenormalise,
    TakesOutWhatWasPutBack,
    TakesOutGuessesToo,
    AcceptsWithoutTheRatio,
    TakesGuessedAsDrawn,
    InvertsTheRatio,
    LetsTheImpossiblePass,
    TakesTheBonusFromTheRowAbove,
    MixesUpTheRows,
]
