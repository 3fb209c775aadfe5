"""What single options do to the logits of one row: small functions that change `row [V]` in place.

`ids` are distinct token ids, [n] int64. Each logit takes the same float operations whichever other tokens are
in `ids` and in whatever order, so a token gets the same bits whether its prefix was committed or drafted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

Ids = Int[Tensor, " n"]
Row = Float[Tensor, " V"]


def add_bias(row: Row, ids: Ids, bias: Float[Tensor, " n"]) -> None:
    """Add a number to each of these tokens' logits (OpenAI's `logit_bias`)."""
    row[ids] += bias


def penalise_repetition(row: Row, ids: Ids, penalty: float) -> None:
    """Divide positive logits of these tokens by `penalty`, multiply the others (Keskar et al. 1909.05858)."""
    found = row[ids]
    row[ids] = torch.where(found > 0, found / penalty, found * penalty)


def penalise_counts(
    row: Row, ids: Ids, counts: Float[Tensor, " n"], frequency: float, presence: float
) -> None:
    """Take `frequency` for each occurrence and `presence` once; every count is at least 1."""
    # Two roundings a step, never one: a fused operation would round differently from one kernel to another.
    found = row[ids]
    found -= counts * frequency
    found -= presence
    row[ids] = found


def ban(row: Row, tokens: Iterable[int]) -> None:
    """Make these tokens impossible."""
    banned = list(tokens)
    if banned:
        row[torch.tensor(banned, device=row.device)] = -torch.inf


def keep_only(row: Row, ids: Ids) -> None:
    """Make all tokens but these impossible."""
    kept = row[ids]
    row.fill_(-torch.inf)
    row[ids] = kept


def completing(sequences: Iterable[Sequence[int]], tail: Sequence[int]) -> set[int]:
    """Return the tokens that would complete one of these token sequences after a text that ends in `tail`."""
    found = set()
    for sequence in sequences:
        before = len(sequence) - 1
        if before <= len(tail) and list(tail[len(tail) - before :]) == list(sequence[:before]):
            found.add(sequence[before])
    return found
