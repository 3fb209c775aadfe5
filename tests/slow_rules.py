"""Slow, plain rules on trees in rational arithmetic, with every step open to being exchanged for a mistake.

Written from the papers' statements, apart from the rules that are tested: laws are whole lists, normalised
after every step, and each sibling's law is worked out from the siblings before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from outrider.sampling.draws import Draws
from outrider.types import DraftTree, Guarantee, Scored, Siblings, Verdict

Exact = list[Fraction]


def normalised(law: Sequence[Fraction]) -> Exact:
    return [p / sum(law) for p in law] if sum(law) else list(law)


class Node:
    """A node's law P and reach, and the children that were not turned down."""

    def __init__(self, law: Exact, reach: Fraction, children: list[int]) -> None:
        self.law, self.reach, self.children = law, reach, children
        self.gone: list[int] = []


class Steps:
    """The steps that both ways through a tree are made of."""

    name = "reference"
    guarantee = Guarantee.SAME_LAW
    serves_trees = True
    siblings = Siblings.WITHOUT_REPLACEMENT
    reads_laws = True
    shares_noise = False
    samples = True

    def order(self, tree: DraftTree, children: list[int]) -> list[int]:
        return children

    def row(self, node: int) -> int:
        return node + 1

    def offered(self, tree: DraftTree, child: int, gone: list[int]) -> Exact:
        """The law that `child` was drawn from, given the siblings turned down before it."""
        law: Any = tree.law(child)
        if law is None:
            law = self.point(child, tree, gone)
        elif not tree.replaced:
            drawn = [tree.tokens[other] for other in gone if tree.law(other) is not None]
            law = self.taken_out(law, drawn)
        return list(law)

    def point(self, child: int, tree: DraftTree, gone: list[int]) -> Exact:
        size = 1 + max(tree.tokens)
        return [Fraction(token == tree.tokens[child]) for token in range(max(size, 4))]

    def taken_out(self, law: Sequence[Fraction], tokens: list[int]) -> Exact:
        return normalised([Fraction(0) if token in tokens else q for token, q in enumerate(law)])

    def chance(self, node: Node, offered: Exact, token: int) -> Fraction:
        if offered[token] == 0:
            return Fraction(0)
        return min(node.reach * node.law[token] / offered[token], Fraction(1))

    def rest(self, node: Node, offered: Exact, token: int) -> Exact:
        return [
            max(node.reach * p - q, Fraction(0))
            for p, q in zip(node.law, [*offered, *[Fraction(0)] * len(node.law)], strict=False)
        ]

    def reach(self, node: Node, share: Fraction) -> Fraction:
        return share / (share + 1 - node.reach) if share else Fraction(0)

    def turn_down(self, node: Node, tree: DraftTree, child: int) -> None:
        rest = self.rest(node, self.offered(tree, child, node.gone), tree.tokens[child])
        share = sum(rest, Fraction(0))
        node.reach = self.reach(node, share)
        if share:
            node.law = normalised(rest)
        node.children.remove(child)
        node.gone.append(child)

    def node(self, scored: Scored, node: int, reach: Fraction) -> Node:
        law: Any = scored.laws[self.row(node)]
        return Node(list(law), reach, self.order(scored.tree, scored.tree.children(node)))


class TopDown(Steps):
    """Recursive rejection."""

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        tree, path = scored.tree, [-1]
        while True:
            node = self.node(scored, path[-1], Fraction(1))
            kept = None
            while node.children and kept is None:
                child = node.children[0]
                offered = self.offered(tree, child, node.gone)
                if draws.accepts(self.chance(node, offered, tree.tokens[child]), child):
                    kept = child
                else:
                    self.turn_down(node, tree, child)
            if kept is None:
                return self.ended(scored, node, path[1:], draws)
            path.append(kept)

    def ended(self, scored: Scored, node: Node, path: list[int], draws: Draws) -> Verdict:
        return Verdict(tuple(path), draws.token(node.law, len(path)))


class BottomUp(Steps):
    """Traversal verification."""

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        tree, path = scored.tree, [(-1, self.node(scored, -1, Fraction(1)))]
        while True:
            last, node = path[-1]
            if node.children:
                child = node.children[0]
                chance = self.chance(node, self.offered(tree, child, node.gone), tree.tokens[child])
                path.append((child, self.node(scored, child, chance)))
            elif last < 0 or draws.accepts(self.passes(scored, path), self.named(last)):
                return Verdict(tuple(n for n, _ in path[1:]), draws.token(node.law, len(path) - 1))
            else:
                self.failed(path, tree)

    def passes(self, scored: Scored, path: list[tuple[int, Node]]) -> Fraction:
        return path[-1][1].reach

    def named(self, node: int) -> int:
        return node

    def failed(self, path: list[tuple[int, Node]], tree: DraftTree) -> None:
        last, _ = path.pop()
        self.turn_down(path[-1][1], tree, last)
