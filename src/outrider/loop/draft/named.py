"""Laws over a part of the vocabulary, whose tokens have names of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from outrider.sampling.law import LogitLaws
from outrider.sampling.params import SamplingParams


class NamedLaws(LogitLaws):
    """Laws of rows over Vd tokens, of which the likeliest alone are asked for, by their names.

    It saves rows of the whole vocabulary where nothing is drawn and no option acts on logits, `[R, Vd]`.
    `names [Vd]` is the token of V that each stands for; where they rise, of equal ones the same is first.
    """

    def __init__(
        self,
        logits: Tensor,
        params: SamplingParams,
        path: Callable[[int], Sequence[int]],
        names: Sequence[int],
    ) -> None:
        super().__init__(logits, params, None, path)
        self._names = names

    def best(self, row: int, count: int) -> list[tuple[int, float]]:
        """Return up to `count` of a row's most likely tokens of V, the likeliest first."""
        return [(self._names[token], probability) for token, probability in super().best(row, count)]
