"""Every known way to get a rule on trees wrong, or a draft for it, is found by the proof."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest

from outrider.loop.accept.enumeration import Text
from outrider.loop.accept.optimal import Optimal
from outrider.loop.accept.proof import check, prove
from outrider.loop.accept.recursive import Recursive
from outrider.loop.accept.traversal import Traversal
from outrider.loop.accept.worlds import (
    KINDS,
    SHAPES,
    TREES,
    Case,
    Draft,
    Model,
    likeliest,
    no_guesses,
    planted,
    random_model,
)
from outrider.sampling.draws import Draws
from outrider.types import DraftTree, Scored, Verdict
from slow_rules import BottomUp, Exact, Node, Steps, TopDown

ZERO = Fraction(0)


@pytest.mark.parametrize("rule", [TopDown(), BottomUp()])
def test_the_reference_without_a_mistake_passes(rule: Any) -> None:
    assert [result for result in prove(rule, cases=3, seed=1) if not result[1]] == []


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


WRONG: list[type[Any]] = [
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


def first_fault(rule: Any, cases: int = 12) -> str | None:
    """What `prove` would report first, without going on after it."""
    for name, kind in {**(TREES if rule.serves_trees else {}), **KINDS}.items():
        chance = random.Random(f"1:{name}")
        for _ in range(cases):
            fault = check(rule, kind(chance))
            if fault is not None:
                return fault
    return None


@pytest.mark.parametrize("rule", WRONG)
def test_every_known_mistake_of_a_rule_on_trees_is_found(rule: type[Steps]) -> None:
    fault = first_fault(rule())
    assert fault is not None
    assert "probability" in fault


def pruned(draft: Draft, keeps: Callable[[DraftTree, int], bool]) -> Draft:
    """Leave nodes out of a drawn tree, and what hangs below them."""

    def smaller(text: Text, draws: Draws) -> DraftTree:
        tree = draft(text, draws)
        tokens, parents, laws, new = [], [], [], {-1: -1}
        for node, parent in enumerate(tree.parents):
            if parent in new and keeps(tree, node):
                new[node] = len(tokens)
                tokens.append(tree.tokens[node])
                parents.append(new[parent])
                laws.append(tree.law(node))
        return DraftTree(tuple(tokens), tuple(parents), tuple(laws), tree.replaced)

    return smaller


def own_chance(tree: DraftTree, node: int) -> Any:
    law: Any = tree.law(node)
    return law[tree.tokens[node]]


def drops_the_unlikely(model: Model) -> Draft:
    """A drawn token is left out when its own draft probability is low."""
    return pruned(planted(model, ((), ()), no_guesses), lambda tree, n: own_chance(tree, n) >= Fraction(1, 3))


def drops_repeated_draws(model: Model) -> Draft:
    """Siblings are drawn independently, repeated ones are left out, the rest counts as independent."""
    return pruned(
        planted(model, ((), (), ()), no_guesses, replaced=True),
        lambda tree, node: tree.tokens[node] not in tree.tokens[:node],
    )


def counts_distinct_draws_as_without_replacement(model: Model) -> Draft:
    """The same siblings, counted as what they are: each one drawn from the law without those before it."""
    drawn = drops_repeated_draws(model)

    def draft(text: Text, draws: Draws) -> DraftTree:
        tree = drawn(text, draws)
        return DraftTree(tree.tokens, tree.parents, tree.laws)

    return draft


def keeps_the_likeliest_of_the_tree(model: Model) -> Draft:
    """Of a drawn tree the two nodes of highest draft probability are kept."""

    def score(tree: DraftTree, node: int) -> Any:
        above = tree.parents[node]
        return own_chance(tree, node) * (1 if above < 0 else score(tree, above))

    def best(tree: DraftTree, node: int) -> bool:
        return node in sorted(range(len(tree)), key=lambda other: -score(tree, other))[:2]

    return pruned(planted(model, (((),), ()), no_guesses), best)


def looks_at_the_next_sibling(model: Model) -> Draft:
    """The first child is drafted further only when the second is token 0."""
    return pruned(
        planted(model, (((),), ()), no_guesses),
        lambda tree, node: tree.parents[node] < 0 or tree.tokens[1:2] == (0,),
    )


def carries_the_whole_law(model: Model) -> Draft:
    """The drawn child comes from the law without the guesses but carries the law with them."""
    drawn = planted(model, ((), ()), likeliest, apart=True)

    def draft(text: Text, draws: Draws) -> DraftTree:
        tree = drawn(text, draws)
        laws = [None if tree.law(node) is None else model(text) for node in range(len(tree))]
        return DraftTree(tree.tokens, tree.parents, tuple(laws))

    return draft


def sorts_its_siblings(model: Model) -> Draft:
    """Drawn siblings are put in order of their draft probability."""
    drawn = planted(model, ((), ()), no_guesses)

    def draft(text: Text, draws: Draws) -> DraftTree:
        tree = drawn(text, draws)
        tokens = sorted(tree.tokens, key=lambda token: -model(text)[token])
        return DraftTree(tuple(tokens), tree.parents, tree.laws)

    return draft


WRONG_DRAFTS: list[tuple[Callable[[Model], Draft], Any]] = [
    (drops_the_unlikely, Recursive()),
    (drops_the_unlikely, Traversal()),
    (drops_repeated_draws, Recursive()),
    (keeps_the_likeliest_of_the_tree, Recursive()),
    (keeps_the_likeliest_of_the_tree, Traversal()),
    (looks_at_the_next_sibling, Traversal()),
    (carries_the_whole_law, Optimal()),
    (carries_the_whole_law, Recursive()),
    (sorts_its_siblings, Recursive()),
    (sorts_its_siblings, Traversal()),
]


@pytest.mark.parametrize(("draft", "rule"), WRONG_DRAFTS)
def test_every_known_mistake_of_a_draft_is_found(draft: Callable[[Model], Draft], rule: Any) -> None:
    """Each breaks a condition that `Siblings` states; under the coupled rule none of them matters."""
    chance = random.Random(3)
    cases = [Case(random_model(chance, 3), (draft(random_model(chance, 3)),), 2) for _ in range(30)]
    assert any(check(rule, case) for case in cases)


def test_distinct_draws_are_draws_without_replacement() -> None:
    """The one way to leave drawn tokens out for what they are that changes nothing."""
    chance = random.Random(3)
    for _ in range(20):
        draft = counts_distinct_draws_as_without_replacement(random_model(chance, 3))
        for rule in (Recursive(), Traversal()):
            assert check(rule, Case(random_model(chance, 3), (draft,), 2)) is None


def test_every_shape_of_the_worlds_is_proved_for_both_ways_through_a_tree() -> None:
    chance = random.Random(5)
    for shape in SHAPES:
        draft = planted(random_model(chance, 3), shape, no_guesses)
        for rule in (Recursive(), Traversal(), Optimal()):
            assert check(rule, Case(random_model(chance, 3), (draft,), 2)) is None
