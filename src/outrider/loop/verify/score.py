"""One pass of the target over all sequences; the only place that calls it."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor

from outrider.loop.sequence import Sequence
from outrider.loop.verify.pack import Part, pack
from outrider.models.base import CapturingTarget, Target
from outrider.sampling.law import LogitLaws
from outrider.types import DraftTree, Scored


@dataclass(frozen=True, slots=True)
class ScoredByModel(Scored):
    """A draft tree with laws that still know the logits they are made of."""

    laws: LogitLaws


def score(
    target: Target,
    sequences: Many[Sequence],
    trees: Many[DraftTree | None],
    features: tuple[int, ...] = (),
) -> tuple[list[ScoredByModel | None], list[Tensor | None]]:
    """Run the target over every sequence's pending tokens and tree; return the laws of each tree.

    A sequence whose tree is None only reads (a part of) its prompt and gets None back. The second list holds
    each sequence's hidden states [C, n, D] after the layers `features`, of its pending tokens that were run
    and then of its tree's nodes; None where no features are asked for.
    """
    parts = []
    for sequence, tree in zip(sequences, trees, strict=True):
        base = sequence.cache.length
        end = len(sequence.tokens) if tree is not None else base + sequence.prompt_rows
        pending = sequence.tokens[base:end]
        parts.append(Part(base, pending, tree or DraftTree(), tree is not None, sequence.wants_prompt_rows))
    batch, caches = pack(parts), [sequence.cache for sequence in sequences]
    hidden: list[Tensor | None] = [None] * len(parts)
    if features:
        assert target.can_capture, "checked when the drafter was given to the engine"
        output = cast(CapturingTarget, target).run(batch, caches, captured=features)
        logits = output.logits
        rows_of = [len(part.pending) + len(part.tree) for part in parts]
        hidden[:] = torch.split(output.hidden, rows_of, dim=1)
    else:
        logits = target.forward(batch, caches)  # [W, V]
    scored: list[ScoredByModel | None] = []
    row = 0
    for sequence, tree, part in zip(sequences, trees, parts, strict=True):
        if part.all_pending:
            row = _note_prompt(sequence, part, logits, row)
        if tree is None:
            scored.append(None)
            continue
        rows = slice(row, row + 1 + len(tree))
        path = partial(path_to, tree)
        laws = LogitLaws(logits[rows], sequence.params, sequence.processing, path)
        scored.append(ScoredByModel(tree, laws))
        row = rows.stop
    return scored, hidden


def _note_prompt(sequence: Sequence, part: Part, logits: Tensor, row: int) -> int:
    """Note the logprobs of the prompt's tokens after this part's rows; return the row after theirs."""
    assert sequence.record is not None
    rows = len(part.pending) - part.scored
    noted = len(sequence.record.prompt) - part.base - 1  # more than none where the prompt is read again
    assert noted >= 0, "every row of a prompt whose logprobs are wanted is read"
    following = sequence.tokens[part.base + 1 + noted : part.base + 1 + rows]
    sequence.record.note_prompt(logits[row + noted : row + rows], following)
    return row + rows


def path_to(tree: DraftTree, row: int) -> tuple[int, ...]:
    """Return the drafted tokens that the law of a row comes after: none for row 0, node i's path for i +
    1."""
    path: list[int] = []
    node = row - 1
    while node >= 0:
        path.append(tree.tokens[node])
        node = tree.parents[node]
    return tuple(reversed(path))
