"""The texts of a run: cropped, parted into learned and held out, and in which order they come."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from outrider.errors import LoadError
from outrider.train.candidate import seed_of
from outrider.train.store import Example

BUCKET = 8
"""Batches among which texts are put together by length, so that little is padding."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts to learn from and texts held out."""

    learned: tuple[Example, ...]
    held: tuple[Example, ...]

    @property
    def digest(self) -> str:
        """What tells these texts from others."""
        said = hashlib.sha256()
        for part in (self.learned, self.held):
            said.update(len(part).to_bytes(8, "little"))
            for text in part:
                said.update(np.asarray(text.tokens, np.uint32).tobytes() + repr(text.spans).encode())
        return said.hexdigest()


def cropped(text: Example, length: int) -> Example:
    """Return the last `length` tokens of a text; a longer one is learned from as if it began there."""
    cut = max(0, len(text.tokens) - length)
    spans = tuple((max(0, start - cut), end - cut) for start, end in text.spans if end > cut)
    return Example(text.tokens[cut:], spans)


def parted(examples: Sequence[Example], *, length: int, held: int, seed: int) -> Texts:
    """Crop texts and hold `held` of them out, at most a fifth; LoadError where too few can be learned from.

    Which ones depends on the seed alone. Texts of which fewer than two tokens were written are left out.
    """
    usable = [text for text in (cropped(one, length) for one in examples) if text.written >= 2]
    if len(usable) < 5:
        raise LoadError(
            f"{len(usable)} texts can be learned from, and that is too few (5 at least); make more data"
        )
    order = _shuffled(len(usable), f"{seed} held out")
    count = max(1, min(held, len(usable) // 5))
    return Texts(tuple(usable[i] for i in order[count:]), tuple(usable[i] for i in order[:count]))


def batches(lengths: Sequence[int], size: int, *, seed: int, epoch: int) -> list[list[int]]:
    """Return the batches of one epoch: every text once, those of like length together, in random order.

    The same seed and epoch give the same batches. The last batches may be smaller.
    """
    order = _shuffled(len(lengths), f"{seed} {epoch} texts")
    found = []
    for start in range(0, len(order), size * BUCKET):
        near = sorted(order[start : start + size * BUCKET], key=lambda index: (lengths[index], index))
        found += [near[at : at + size] for at in range(0, len(near), size)]
    return [found[i] for i in _shuffled(len(found), f"{seed} {epoch} batches")]


def learned_tokens(texts: Sequence[Example], size: int, *, seed: int, steps: int) -> int:
    """Return how many tokens of the target's `steps` batches of such `batches` hold, epoch after epoch."""
    lengths = [len(text.tokens) for text in texts]
    found, epoch = 0, 0
    while steps > 0:
        order = batches(lengths, size, seed=seed, epoch=epoch)[:steps]
        found += sum(texts[index].written for batch in order for index in batch)
        steps, epoch = steps - len(order), epoch + 1
    return found


def padded(batch: Sequence[Example]) -> Tensor:
    """Return the tokens of texts `[B, T]` int64, padded on the right with zeros."""
    longest = max(len(text.tokens) for text in batch)
    return torch.tensor([[*text.tokens, *(0,) * (longest - len(text.tokens))] for text in batch])


def written(batch: Sequence[Example]) -> Tensor:
    """Return where the tokens of `padded` were written by the target, `[B, T]` bool."""
    longest = max(len(text.tokens) for text in batch)
    mask = torch.zeros(len(batch), longest, dtype=torch.bool)
    for row, text in enumerate(batch):
        for start, end in text.spans:
            mask[row, start:end] = True
    return mask


def _shuffled(count: int, words: str) -> list[int]:
    generator = torch.Generator().manual_seed(seed_of(words))
    order: list[int] = torch.randperm(count, generator=generator).tolist()
    return order
