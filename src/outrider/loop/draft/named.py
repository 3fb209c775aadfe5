"""Laws over a part of the vocabulary, whose tokens have names of their own."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from outrider.sampling.law import LogitLaws


class Laws(Protocol):
    """What a tree is grown from: the laws of rows, in tokens of V."""

    def __getitem__(self, row: int, /) -> Tensor:
        """Return a row's law [V]."""
        ...

    def best(self, row: int, count: int) -> list[tuple[int, float]]:
        """Return up to `count` of a row's most likely tokens, as `LogitLaws.best`."""
        ...

    def confidence(self, row: int) -> float:
        """Return the probability of a row's most likely token, as `LogitLaws.confidence`."""
        ...

    def is_dead_end(self, row: int) -> bool:
        """Tell whether nothing can follow a row, as `LogitLaws.is_dead_end`."""
        ...


class NamedLaws:
    """Laws of rows over Vd tokens of V, where no option acts on single tokens' logits. Implements `Laws`.

    Everything is worked out over the Vd tokens that there are logits for, and named afterwards: a law that is
    asked for is put in its place among V, its other tokens of probability 0.
    """

    def __init__(self, laws: LogitLaws, names: Tensor, vocab_size: int) -> None:
        """`names [Vd]`: the tokens; where they rise, of equally likely ones the same is first."""
        self._laws, self._names, self._vocab_size = laws, names, vocab_size

    def __getitem__(self, row: int, /) -> Tensor:
        law = self._laws[row]
        whole = torch.zeros(self._vocab_size, device=law.device)
        whole[self._names] = law
        return whole

    def best(self, row: int, count: int) -> list[tuple[int, float]]:
        """Return up to `count` of a row's most likely tokens of V, the likeliest first."""
        places, chances = zip(*self._laws.best(row, count), strict=True)
        return list(zip(self._names[list(places)].tolist(), chances, strict=True))

    def confidence(self, row: int) -> float:
        """Return the probability of a row's most likely token at temperature 1, before any filter."""
        return self._laws.confidence(row)

    def is_dead_end(self, row: int) -> bool:
        """Tell whether nothing can follow a row."""
        return self._laws.is_dead_end(row)
