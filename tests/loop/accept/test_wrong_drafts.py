"""Every known way to draw a tree wrong is found by the proof."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from outrider.loop.accept.enumeration import Text
from outrider.loop.accept.optimal import Optimal
from outrider.loop.accept.proof import check
from outrider.loop.accept.recursive import Recursive
from outrider.loop.accept.traversal import Traversal
from outrider.loop.accept.worlds import Case, Draft, Model, likeliest, no_guesses, planted, random_model
from outrider.sampling.draws import Draws
from outrider.types import DraftTree


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
