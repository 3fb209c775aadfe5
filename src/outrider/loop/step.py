"""One step of speculative decoding: draft, verify, accept, commit. Read this first.

Plain decoding is the same step with empty trees.
"""

from __future__ import annotations

from collections.abc import Sequence as Many

from torch import Tensor

from outrider.errors import OutriderError
from outrider.loop.commit.commit import commit, fail, feed
from outrider.loop.draft.base import Drafter
from outrider.loop.propose import Proposal, propose
from outrider.loop.sequence import Sequence
from outrider.loop.verify.score import ScoredByModel, score
from outrider.models.base import Target
from outrider.planner.planner import Planner
from outrider.sampling.threads import one_thread
from outrider.types import Committed


def step(target: Target, drafter: Drafter, sequences: Many[Sequence], planner: Planner) -> list[Committed]:
    """Advance every sequence by one target pass that they share.

    Each gets at least one token, or reads a piece more of its prompt and gets none. `planner` decides how
    much is drafted. A sequence whose laws cannot be made (no numbers, no token left) ends with its `error`;
    the others go on.
    """
    proposals = propose(target, drafter, sequences, planner)
    trees = [None if proposal is None else proposal.tree for proposal in proposals]
    scored, hidden = score(target, sequences, trees, drafter.features)
    with one_thread():
        return [
            _decide(drafter, sequence, proposal, result, states, planner)
            for sequence, proposal, result, states in zip(sequences, proposals, scored, hidden, strict=True)
        ]


def _decide(
    drafter: Drafter,
    sequence: Sequence,
    proposal: Proposal | None,
    scored: ScoredByModel | None,
    hidden: Tensor | None,
    planner: Planner,
) -> Committed:
    """Let the sequence's rule decide about its draft, and commit what it keeps."""
    if proposal is None or scored is None:
        sequence.cache.keep(range(sequence.prompt_rows))
        feed(sequence, drafter, range(sequence.prompt_rows), hidden)
        return Committed((), 0)
    draws = sequence.draws.for_rule(sequence.rule, len(sequence.tokens))
    try:
        verdict = sequence.rule.decide(scored, draws)
        if drafter.observes and proposal.asked:
            drafter.observe(sequence.draft_state, scored.tree, scored.laws)
        committed = commit(sequence, drafter, scored, verdict, hidden)
    except OutriderError as error:
        return fail(sequence, error)
    kept = set(verdict.path[: committed.kept])
    right = [node in kept for node in range(len(scored.tree))]
    planner.note(sequence.breaker, proposal.price, committed.kept, scored.tree.chances, right)
    return committed
