"""What is trained, as the loop sees it, and what the loop says of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from outrider.train.store import Example


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the held-out texts say, as means over texts.

    `kept` and `agreeing` by depth of the draft, along the text as the target wrote it: Σ min(p, q), how often
    a drawn token would be kept, and how often draft and target find the same token most likely.
    """

    loss: float
    kept: tuple[float, ...]
    agreeing: tuple[float, ...]

    @property
    def accepted_length(self) -> float:
        """τ of chains of this depth, if depths were independent: 1 + Σ of the products of `kept`."""
        return 1 + math.fsum(math.prod(self.kept[: depth + 1]) for depth in range(len(self.kept)))


class Task(Protocol):
    """What is trained."""

    @property
    def module(self) -> nn.Module:
        """What is saved, all of it; those of its parameters that ask for a gradient are learned."""
        ...

    def read_ahead(self, texts: Sequence[Example]) -> Iterator[None]:
        """Read texts that will be learned from, one by one, as far as that saves reading them later."""
        ...

    def begin_step(self, step: int, batch: Sequence[Example]) -> Sequence[Example]:
        """Get ready for a step, where something is due before it; return the texts to learn from in it."""
        ...

    def learn(self, batch: Sequence[Example]) -> float:
        """Run forward and backward over a batch, adding to gradients; return the loss."""
        ...

    def judge(self, held: Sequence[Example]) -> Judgement:
        """Look at held-out texts, without gradients."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold beside the module: tensors, numbers, texts, lists of these."""
        ...

    def take_state(self, state: dict[str, Any]) -> None:
        """Go on from such a state."""
        ...

    def export(self, directory: Path) -> None:
        """Write the result in the form in which it is used."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    step: int
    steps: int | None
    """Planned; None while nobody knows."""
    loss: float
    lr: float
    tokens_per_second: float
    """Tokens of the batch, padding left out, over the time of the step."""
    seconds_left: float | None
    judgement: Judgement | None
    """The last one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: "done", "time" or "stopped" (which can be resumed)."""

    reason: str
    step: int
    seconds: float
    """Of learning, earlier parts of a resumed run included."""
    judgement: Judgement | None
