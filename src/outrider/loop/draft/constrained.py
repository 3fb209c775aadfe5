"""Drafts under a constraint: what it forces is drafted first, what it refuses is not drafted.

Neither moves the law of the text. Forced tokens follow from the committed text alone, so they are guesses
without a draw, and a guess without a draw may be left out under every rule. One that was drawn is never left
out for what it is: its law is under the same constraint as the target's, so it is not refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from outrider.loop.draft.base import Ask
from outrider.sampling.processing import Processing
from outrider.types import DraftTree, Law


def begin_with(ask: Ask, tree: DraftTree) -> DraftTree:
    """Return the tree with the chain `ask.forced` in front, at most the ask's budget of nodes.

    Guesses without a draw that are equal to a forced token are that token. Only the forced chain is left of a
    tree that draws in place of it, and of one that begins otherwise where no siblings are allowed.
    """
    forced = ask.forced
    if not forced:
        return tree
    assert len(forced) <= ask.budget
    drawn = any(tree.law(node) is not None for node in tree.children(-1))
    if drawn or not (ask.branch or _follows(tree, forced)):
        return DraftTree.chain(forced, chances=[1.0] * len(forced))
    tokens, parents = list(forced), list(range(-1, len(forced) - 1))
    laws: list[Law | None] = [None] * len(forced)
    chances = [1.0] * len(forced)
    place = {-1: -1}
    for node, parent in enumerate(tree.parents):
        before, token, law = place[parent], tree.tokens[node], tree.law(node)
        if law is None and before + 1 < len(forced) and token == forced[before + 1]:
            place[node] = before + 1
            continue
        place[node] = len(tokens)
        tokens.append(token)
        parents.append(before)
        laws.append(law)
        chances.append(tree.chances[node] if tree.chances else 0.0)
    drawn = any(law is not None for law in laws)
    begun = DraftTree(
        tuple(tokens),
        tuple(parents),
        tuple(laws) if drawn else None,
        tree.replaced,
        tuple(chances) if tree.chances or not len(tree) else None,
    )
    return begun.subtree(range(min(len(begun), ask.budget)))


def cut(tree: DraftTree, processing: Processing | None) -> DraftTree:
    """Return the tree without the guesses that the constraint refuses, and without what comes after the
    text's end.
    """
    if processing is None or not processing.constrained or not len(tree):
        return tree
    paths: dict[int, tuple[int, ...]] = {-1: ()}
    kept: list[int] = []
    for node, parent in enumerate(tree.parents):
        if parent not in paths or processing.is_over(paths[parent]):
            continue
        path = (*paths[parent], tree.tokens[node])
        if tree.law(node) is None and processing.accepts(path) < len(path):
            continue
        paths[node] = path
        kept.append(node)
    return tree.subtree(kept)


def _follows(tree: DraftTree, forced: Sequence[int]) -> bool:
    """Tell whether a chain and the forced one agree as far as both go."""
    return all(
        tree.law(node) is None and tree.tokens[node] == forced[node]
        for node in range(min(len(tree), len(forced)))
    )
