"""How often a draft model's first, second, … choice is what the target says."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.loop.draft.held import Branches, Held, TreeReader
from outrider.models.base import Target
from outrider.sampling.keyed import SharedDraws
from outrider.sampling.law import LogitLaws
from outrider.sampling.params import SamplingParams


def rank_counts(
    draft: Target,
    vocabulary: int,
    prompt: Sequence[int],
    answer: Sequence[int],
    params: SamplingParams,
    width: int,
) -> tuple[list[int], list[int]]:
    """Return how often each rank was tried and how often it was right, [width] each, over one answer.

    `answer` is the target's, for `params` (with their seed) and request 0. A node is kept only when all above
    it is the target's own text, so every position of the answer tells of the children of a kept node, at
    whatever depth: one row of ranks holds for all depths. Children are the most likely tokens at temperature
    0, else those that race with the target's own noise, as under `greedy` and `coupled`. Options that change
    logits by the text before them are not taken into account.
    """
    tried, right = [0] * width, [0] * width
    reader, held = TreeReader(draft, vocabulary), Held(draft.new_cache(), list(prompt))
    for token in answer:
        if len(held.tokens) > draft.context_limit:
            break
        [logits] = reader.read([(held, Branches(), [-1])])
        laws = LogitLaws(logits, params)
        if params.greedy:
            children = [child for child, _ in laws.best(0, width)]
        else:
            draws = SharedDraws(params.seed or 0, 0, len(held.tokens))
            children = draws.tokens(laws[0], width, 0, -1)
        for rank, child in enumerate(children):
            tried[rank] += 1
            right[rank] += child == token
        held.commit([token])
    return tried, right
