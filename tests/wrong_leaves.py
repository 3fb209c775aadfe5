"""Mistakes in rules that go through a tree from its leaves up, and in the optimal one, one class each."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from outrider.loop.accept.optimal import Optimal
from outrider.sampling.draws import Draws
from outrider.types import DraftTree, Scored, Verdict
from slow_rules import BottomUp, Exact, Node

ZERO = Fraction(0)


class UsesTheShareItself(BottomUp):
    """After a child is turned down the node passes with s, which is not yet given that the child failed."""

    def reach(self, node: Node, share: Fraction) -> Fraction:
        return share if node.reach < 1 else Fraction(1)


class DividesByTheReach(BottomUp):
    """s / reach: as if the mass of the child did not count."""

    def reach(self, node: Node, share: Fraction) -> Fraction:
        return min(share / node.reach, Fraction(1)) if node.reach else ZERO


class KeepsTheReach(BottomUp):
    """A node's reach stays as it was when a child is turned down."""

    def reach(self, node: Node, share: Fraction) -> Fraction:
        return node.reach


class LeavesTheReachOutOfTheRest(BottomUp):
    """(P - Q)+ where (reach · P - Q)+ is meant."""

    def rest(self, node: Node, offered: Exact, token: int) -> Exact:
        whole = Node(node.law, Fraction(1), [])
        return super().rest(whole, offered, token)


class DoesNotCapTheReach(BottomUp):
    """A lucky token lifts the reach above 1, for what comes after it."""

    def chance(self, node: Node, offered: Exact, token: int) -> Fraction:
        return node.reach * node.law[token] / offered[token] if offered[token] else ZERO


class TestsTheLastTokenAlone(BottomUp):
    """A leaf passes by its own ratio, whatever its ancestors are worth."""

    def chance(self, node: Node, offered: Exact, token: int) -> Fraction:
        return super().chance(Node(node.law, Fraction(1), []), offered, token)


class UsesOneNumberForAll(BottomUp):
    """All tests share one uniform number."""

    def named(self, node: int) -> int:
        return 0


class GivesUpTheWholeBranch(BottomUp):
    """When a leaf fails, its ancestors below the root are turned down without a test."""

    def failed(self, path: list[tuple[int, Node]], tree: DraftTree) -> None:
        while len(path) > 2:
            path.pop()
        super().failed(path, tree)


class BreaksEarly(BottomUp):
    """Block verification from the front, stopping at the first prefix that fails its test."""

    serves_trees = False

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        tree, nodes = scored.tree, [self.node(scored, -1, Fraction(1))]
        for child, token in enumerate(tree.tokens):
            chance = self.chance(nodes[-1], self.offered(tree, child, []), token)
            nodes.append(self.node(scored, child, chance))
        for child in range(len(tree)):
            self.turn_down(nodes[child], tree, child)
        kept = 0
        while kept < len(tree) and draws.accepts(nodes[kept + 1].reach, kept):
            kept += 1
        return Verdict(tuple(range(kept)), draws.token(nodes[kept].law, kept))


class ScalesByTheTokenBefore(BottomUp):
    """The residual is scaled by the reach of the node above."""

    def node(self, scored: Scored, node: int, reach: Fraction) -> Node:
        made = super().node(scored, node, reach)
        made.above = getattr(self, "above", Fraction(1))  # type: ignore[attr-defined]
        self.above = reach
        return made

    def rest(self, node: Node, offered: Exact, token: int) -> Exact:
        scaled = Node(node.law, node.above, [])  # type: ignore[attr-defined]
        return super().rest(scaled, offered, token)


class TriesGuessesFirst(Optimal):
    """A token is drawn from p; if it is no guess, the drawn child is tried as if nothing had happened."""

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        tree, path, node = scored.tree, list[int](), -1
        while True:
            law = scored.laws[node + 1]
            token = draws.token(law, len(path))
            children = tree.children(node)
            kept = next((c for c in children if tree.law(c) is None and tree.tokens[c] == token), None)
            for child in children if kept is None else []:
                q: Any = tree.law(child)
                if q and draws.accepts(
                    min(Fraction(1), law[tree.tokens[child]] / q[tree.tokens[child]]), child
                ):
                    kept = child
                    break
            if kept is None:
                return Verdict(tuple(path), token)
            path.append(kept)
            node = kept


WRONG_BOTTOM_UP: list[type[Any]] = [
    UsesTheShareItself,
    DividesByTheReach,
    KeepsTheReach,
    LeavesTheReachOutOfTheRest,
    DoesNotCapTheReach,
    TestsTheLastTokenAlone,
    UsesOneNumberForAll,
    GivesUpTheWholeBranch,
    BreaksEarly,
    ScalesByTheTokenBefore,
    TriesGuessesFirst,
]
