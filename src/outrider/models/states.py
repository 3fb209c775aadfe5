"""Which layers a pass runs, and after which of them it keeps the hidden states."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.errors import OptionError
from outrider.models.base import NORMED


def chosen_layers(layers: Sequence[int] | None, captured: Sequence[int], count: int) -> Sequence[int]:
    """Return the layers of a pass, all where None; OptionError unless each is there, and once.

    What is to be captured must be run; `NORMED` may be captured where anything is.
    """
    every: Sequence[int] = range(count) if layers is None else tuple(layers)
    shown = (*every, NORMED) if every else ()
    for what, chosen, known in (("layer", layers or (), range(count)), ("captured layer", captured, shown)):
        for index in chosen:
            if index not in known or list(chosen).count(index) > 1:
                raise OptionError(f"{what} {index} is named twice or not among {list(known)}")
    return every
