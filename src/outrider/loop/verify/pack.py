"""Trees of all sequences into one ragged batch, without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.models.base import Batch
from outrider.types import DraftTree

PROMPT_ROWS = 512
"""Most prompt tokens of one sequence in one pass."""
LOGPROB_ROWS = 64
"""The same where logits are wanted for each of them: 64 rows of 150,000 tokens are 38 MB."""


@dataclass(frozen=True, slots=True)
class Part:
    """One sequence's share of a pass: pending tokens that follow `base` cached ones, then its draft tree.

    `scored` is False while the prompt is still being read: then there is no tree. A scored part wants the
    logits of its last pending row and of its tree's; with `all_pending` every part wants those of all its
    pending rows too.
    """

    base: int
    pending: Sequence[int]
    tree: DraftTree
    scored: bool
    all_pending: bool = False


def pack(parts: Sequence[Part]) -> Batch:
    """Return the batch of all parts; wanted rows stand in their order, pending ones before the N nodes."""
    tokens: list[int] = []
    positions: list[int] = []
    sequences: list[int] = []
    parents: list[int] = []
    wanted: list[int] = []
    for index, part in enumerate(parts):
        first = len(tokens)
        root = first + len(part.pending) - 1
        tokens += part.pending
        positions += range(part.base, part.base + len(part.pending))
        parents += [-1, *range(first, root)]
        if part.all_pending:
            wanted += range(first, root + (not part.scored))
        if part.scored:
            tokens += part.tree.tokens
            positions += [positions[root] + depth for depth in part.tree.depths()]
            parents += [root + 1 + parent for parent in part.tree.parents]
            wanted += range(root, root + 1 + len(part.tree))
        sequences += [index] * (len(tokens) - first)
    return Batch(tuple(tokens), tuple(positions), tuple(sequences), tuple(parents), tuple(wanted))
