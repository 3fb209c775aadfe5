"""The walk that rules without acceptance tests share."""

from __future__ import annotations

from collections.abc import Callable

from outrider.types import DraftTree, Verdict


def walk(tree: DraftTree, choose: Callable[[int, int], int]) -> Verdict:
    """Follow the target's own tokens through the tree; the first one it does not hold ends the path.

    `choose(row, depth)` gives the target's token after row `row` of the tree's laws, for the position `depth`
    after the committed text.
    """
    children: dict[tuple[int, int], int] = {}
    for node, place in enumerate(zip(tree.parents, tree.tokens, strict=True)):
        children.setdefault(place, node)
    path: list[int] = []
    node = -1
    while True:
        token = choose(node + 1, len(path))
        child = children.get((node, token))
        if child is None:
            return Verdict(tuple(path), token)
        path.append(child)
        node = child
