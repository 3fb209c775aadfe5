"""A draft vocabulary: which of the target's tokens a head can name.

Drafting over the most frequent tokens alone makes a head's last matrix small (FR-Spec, Zhao et al. 2025,
arXiv 2502.14856; EAGLE-3, Li et al. 2025, arXiv 2503.01840). Files write the choice as `d2t [Vd]`, for each
draft id the target id less the draft id, and `t2d [V]`, True for each target id that has a draft id.
"""

from __future__ import annotations

import torch
from torch import Tensor

from outrider.errors import HeadError


def checked_ids(target_ids: Tensor, vocab_size: int) -> Tensor:
    """Return target ids `[Vd]` as int64; HeadError unless they are distinct tokens of the target."""
    if target_ids.dim() != 1 or target_ids.dtype in _NO_IDS:
        raise HeadError(
            f"a draft vocabulary is one row of whole numbers, not {list(target_ids.shape)} {target_ids.dtype}"
        )
    ids = target_ids.detach().to("cpu", torch.int64)
    if ids.numel() == 0:
        raise HeadError("a draft vocabulary names no token at all")
    if int(ids.min()) < 0 or int(ids.max()) >= vocab_size:
        raise HeadError(
            f"a draft vocabulary names tokens {int(ids.min())} to {int(ids.max())}, but the target has "
            f"0 to {vocab_size - 1}"
        )
    if not bool((ids.sort().values.diff() > 0).all()):
        raise HeadError("a draft vocabulary names a target token twice")
    return ids


def offsets_of(target_ids: Tensor) -> Tensor:
    """Return `d2t [Vd]` int64 for target ids `[Vd]`."""
    return target_ids.to(torch.int64) - torch.arange(len(target_ids), device=target_ids.device)


def mask_of(target_ids: Tensor, vocab_size: int) -> Tensor:
    """Return `t2d [V]` bool for target ids `[Vd]`."""
    mask = torch.zeros(vocab_size, dtype=torch.bool, device=target_ids.device)
    mask[target_ids] = True
    return mask


def ids_from_files(d2t: Tensor | None, t2d: Tensor | None, draft_size: int, vocab_size: int) -> Tensor:
    """Return the target ids `[Vd]` that `d2t` and `t2d` agree on; HeadError says which of them is wrong.

    Where the draft vocabulary is the whole one, both may be missing, or hold nothing but zeros.
    """
    whole = draft_size == vocab_size
    if d2t is None and t2d is None:
        if whole:
            return torch.arange(vocab_size)
        raise HeadError(
            f"the head drafts {draft_size} of {vocab_size} tokens, but the file has neither d2t nor t2d, "
            "so nobody can say which; export the head again with both"
        )
    if d2t is None or t2d is None:
        missing, present = ("d2t", "t2d") if d2t is None else ("t2d", "d2t")
        raise HeadError(f"the file has {present} but no {missing}; the two go together, export them again")
    _check_row("d2t", d2t, draft_size, whole_numbers=True)
    _check_row("t2d", t2d, vocab_size, whole_numbers=False)
    if not bool(d2t.any()) and not bool(t2d.any()) and whole:
        return torch.arange(vocab_size)
    if not bool(d2t.any()) and not whole:
        raise HeadError(
            f"d2t is all zeros although the head drafts {draft_size} of {vocab_size} tokens. That would make "
            f"draft ids 0 to {draft_size - 1} the target's first tokens, which is what an export that lost "
            "its map looks like; export the head again with the map it was trained with"
        )
    ids = d2t.to(torch.int64) + torch.arange(draft_size)
    if int(ids.min()) < 0 or int(ids.max()) >= vocab_size:
        raise HeadError(
            f"d2t leads to target tokens {int(ids.min())} to {int(ids.max())}, but the target has "
            f"0 to {vocab_size - 1}; d2t holds offsets (target id less draft id), not ids"
        )
    if draft_size > 1 and not bool((ids.diff() > 0).all()):
        raise HeadError("d2t names target tokens out of order or twice; draft ids must follow target ids")
    count = int((t2d != 0).sum())
    if count != draft_size:
        raise HeadError(f"t2d marks {count} target tokens, but the draft vocabulary has {draft_size}")
    if not torch.equal(t2d != 0, mask_of(ids, vocab_size)):
        raise HeadError("t2d marks other target tokens than d2t leads to; the two are of different heads")
    return ids


def expand(logits: Tensor, target_ids: Tensor, vocab_size: int) -> Tensor:
    """Return logits `[..., V]` over the target's tokens for `[..., Vd]`: −inf for what has no draft id."""
    assert logits.shape[-1] == len(target_ids)
    full = logits.new_full((*logits.shape[:-1], vocab_size), float("-inf"))
    full[..., target_ids] = logits
    return full


_NO_IDS = (torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _check_row(name: str, row: Tensor, size: int, *, whole_numbers: bool) -> None:
    if tuple(row.shape) != (size,):
        raise HeadError(f"{name} has the shape {list(row.shape)}, the configuration calls for [{size}]")
    if whole_numbers and row.dtype in _NO_IDS:
        raise HeadError(f"{name} holds {row.dtype}; it must hold whole numbers")
    if not whole_numbers and row.dtype != torch.bool and not bool(((row == 0) | (row == 1)).all()):
        raise HeadError(f"{name} must hold yes or no for each target token, not {row.dtype} numbers")
