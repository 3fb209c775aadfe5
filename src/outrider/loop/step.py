"""One step of speculative decoding: draft, verify, accept, commit. Read this first.

Plain decoding is the same step with empty trees.
"""

from __future__ import annotations

from collections.abc import Sequence as Many

from outrider.errors import OutriderError
from outrider.loop.commit.commit import commit, fail
from outrider.loop.draft.base import Ask, Drafter
from outrider.loop.draft.constrained import begin_with, cut
from outrider.loop.sequence import Sequence
from outrider.loop.verify.score import score
from outrider.models.base import Target
from outrider.sampling.threads import one_thread
from outrider.types import Committed, DraftTree


def step(
    target: Target, drafter: Drafter, sequences: Many[Sequence], budget: int, costs: Many[float] = ()
) -> list[Committed]:
    """Advance every sequence by one target pass that they share.

    Each gets at least one token, or reads a piece more of its prompt and gets none. `budget` is the most
    draft nodes of one sequence, `costs` what they cost (see `Ask`). A sequence whose laws cannot be made (no
    numbers, no token left) ends with its `error`; the others go on.
    """
    trees = draft(target, drafter, sequences, budget, costs)
    scored = score(target, sequences, trees)
    committed = []
    for sequence, result in zip(sequences, scored, strict=True):
        if result is None:
            sequence.cache.keep(range(sequence.prompt_rows))
            committed.append(Committed((), 0))
            continue
        draws = sequence.draws.for_rule(sequence.rule, len(sequence.tokens))
        try:
            with one_thread():
                verdict = sequence.rule.decide(result, draws)
                if drafter.observes:
                    drafter.observe(sequence.draft_state, result.tree, result.laws)
            committed.append(commit(sequence, drafter, result, verdict))
        except OutriderError as error:
            committed.append(fail(sequence, error))
    return committed


def draft(
    target: Target, drafter: Drafter, sequences: Many[Sequence], budget: int, costs: Many[float]
) -> list[DraftTree | None]:
    """Ask for a tree for every sequence that is ready to emit; None for those still reading their prompt.

    No draft is deeper than what may still be emitted, so none reaches past the context or the length asked
    for. Where a grammar forces tokens, they are drafted first; what it refuses is not drafted.
    """
    trees: list[DraftTree | None] = [None] * len(sequences)
    asks, asking = [], []
    for index, sequence in enumerate(sequences):
        if sequence.pending > sequence.prompt_rows:
            continue
        trees[index] = DraftTree()
        nodes = min(budget, sequence.room - 1)
        if nodes > 0:
            constrained = sequence.processing if drafter.speculates else None
            forced = constrained.forced(nodes) if constrained else ()
            asks.append(
                Ask(
                    state=sequence.draft_state,
                    tokens=sequence.tokens,
                    budget=nodes,
                    branch=target.can_branch and sequence.rule.serves_trees,
                    params=sequence.params,
                    processing=sequence.processing,
                    draws=sequence.draws.for_draft(sequence.rule, len(sequence.tokens)),
                    costs=costs[: nodes + 1],
                    siblings=sequence.rule.siblings,
                    wants_laws=sequence.rule.reads_laws,
                    forced=forced,
                )
            )
            asking.append(index)
    proposed = drafter.propose(asks) if asks else []
    for index, ask, tree in zip(asking, asks, proposed, strict=True):
        assert len(tree) <= ask.budget, f"{drafter.name} kept to its budget"
        trees[index] = cut(begin_with(ask, tree), ask.processing)
    return trees
