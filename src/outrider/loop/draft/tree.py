"""Growing one draft tree from several guessed chains, the most promising nodes first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from outrider.loop.draft.worth import best_count
from outrider.types import DraftTree

Chain = tuple[Sequence[int], Sequence[float]]
"""Tokens of one guess and their scores, of equal length: the chance that the pass keeps each of them."""


def grow(chains: Iterable[Chain], budget: int, costs: Sequence[float] = ()) -> DraftTree:
    """Merge chains into one tree of at most `budget` nodes, best first.

    Chains that begin alike share those nodes; a node guessed by several chains takes its highest score.
    Nodes are taken in order of score, a parent always before its children, among equals the one that was
    named first; of them as many as bring the most tokens for their time (`Ask.costs`). Where scores fall
    along every chain, the nodes taken are those of highest total score. Siblings stand best first.
    """
    scores: list[float] = []
    tokens: list[int] = []
    children: list[dict[int, int]] = []
    roots: dict[int, int] = {}
    for chain_tokens, chain_scores in chains:
        siblings = roots
        for token, score in zip(chain_tokens, chain_scores, strict=True):
            node = siblings.setdefault(token, len(tokens))
            if node == len(tokens):
                tokens.append(token)
                scores.append(score)
                children.append({})
            elif score > scores[node]:
                scores[node] = score
            siblings = children[node]

    reachable = [(-scores[node], node, -1) for node in roots.values()]
    heapq.heapify(reachable)
    taken: list[int] = []
    parents: list[int] = []
    chances: list[float] = []
    while reachable and len(taken) < budget:
        _, node, parent = heapq.heappop(reachable)
        for child in children[node].values():
            heapq.heappush(reachable, (-scores[child], child, len(taken)))
        taken.append(tokens[node])
        parents.append(parent)
        chances.append(scores[node])
    count = best_count(chances, costs)
    return DraftTree(tuple(taken[:count]), tuple(parents[:count]), chances=tuple(chances[:count]))
