"""One step of speculative decoding: draft, verify, accept, commit. Read this first.

Plain decoding is the same step with empty trees.
"""

from __future__ import annotations

from collections.abc import Sequence as Many

from outrider.errors import OutriderError
from outrider.loop.commit.commit import commit, fail
from outrider.loop.draft.base import Drafter
from outrider.loop.propose import propose
from outrider.loop.sequence import Sequence
from outrider.loop.verify.score import score
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
    scored = score(target, sequences, [None if proposal is None else proposal.tree for proposal in proposals])
    committed = []
    for sequence, proposal, result in zip(sequences, proposals, scored, strict=True):
        if proposal is None or result is None:
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
            sequence.breaker.note(committed[-1].kept, proposal.price)
        except OutriderError as error:
            committed.append(fail(sequence, error))
    return committed
