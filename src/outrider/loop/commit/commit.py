"""Make a verdict real: the kept path into the cache, stops cut inside the run, the drafter told."""

from __future__ import annotations

from collections.abc import Sequence as Many

import torch
from torch import Tensor

from outrider.errors import OutriderError
from outrider.loop.commit.trace import trace_of
from outrider.loop.draft.authors import authors_of
from outrider.loop.draft.base import Drafter
from outrider.loop.sequence import Sequence, StepRecord
from outrider.sampling.law import LogitLaws
from outrider.types import Committed, Scored, Verdict


def commit(
    sequence: Sequence, drafter: Drafter, scored: Scored, verdict: Verdict, hidden: Tensor | None = None
) -> Committed:
    """Append what the verdict keeps to the sequence and return it.

    Afterwards the cache holds every committed token but the last, whatever branch was kept and wherever a
    stop cut the run. `hidden [C, n, D]`: the states that the drafter learns from, of all rows of the
    sequence; None where it learns from none.
    """
    tree = scored.tree
    run = [tree.tokens[node] for node in verdict.path] + [verdict.token]
    count, finish_reason = sequence.stops.cut(run, sequence.room)
    pending = sequence.pending
    kept_rows = [pending + node for node in verdict.path[: count - 1]]
    rows = [*range(pending), *kept_rows]
    sequence.cache.keep(rows)
    if sequence.record is not None:
        assert isinstance(scored.laws, LogitLaws), "what the loop scores has logits"
        laws = [0, *(node + 1 for node in verdict.path)]
        sequence.record.note(scored.laws, zip(laws[:count], run[:count], strict=True))
    if sequence.trace is not None:
        authors = authors_of(drafter, sequence.draft_state, tree)
        sequence.passes.append(trace_of(scored, verdict.path[:count], run[:count], authors, sequence.trace))
    committed = Committed(tuple(run[:count]), min(count, len(verdict.path)), finish_reason)
    leaf = not tree.children(verdict.path[-1] if verdict.path else -1)
    sequence.steps.append(StepRecord(len(tree), max(tree.depths(), default=0), leaf, committed))
    sequence.tokens.extend(committed.tokens)
    sequence.finish_reason = finish_reason
    if finish_reason is None:
        feed(sequence, drafter, rows, hidden)
        drafter.extend(sequence.draft_state, committed.tokens, committed.kept)
        sequence.told = len(sequence.tokens)
    return committed


def feed(sequence: Sequence, drafter: Drafter, rows: Many[int], hidden: Tensor | None) -> None:
    """Give the drafter the states of the rows that the cache has just kept, in rising order."""
    if hidden is None:
        return
    end = sequence.cache.length
    start = end - len(rows)
    if rows[-1] == len(rows) - 1:  # they are the first ones
        states = hidden[:, : len(rows)]
    else:
        states = hidden.index_select(1, torch.tensor(rows, device=hidden.device))
    drafter.feed(sequence.draft_state, start, sequence.tokens[start:end], states)


def fail(sequence: Sequence, error: OutriderError) -> Committed:
    """End a sequence where an error of its own kept it from going on; what it has emitted stays."""
    sequence.cache.keep(())
    sequence.error, sequence.finish_reason = error, "error"
    return Committed((), 0, "error")
