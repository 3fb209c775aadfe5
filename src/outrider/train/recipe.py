"""How long and how fast a run learns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from outrider.errors import OptionError
from outrider.sampling import checks

FINAL_SHARE = 0.05
"""Of the learning rate, what is left at the end."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of a run; OptionError for a value out of its range.

    AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) with warm-up and a cosine down to a twentieth. With
    `minutes` the number of steps is what fits into that time, worked out once after the first ones; the run
    ends when the time is over, or after `epochs`, whichever comes first.
    """

    lr: float = 4e-4
    warmup: int = 50
    """Steps in which the learning rate rises; a fifth of a short run at most."""
    epochs: float = 3.0
    minutes: float | None = None
    """Of learning, earlier parts of a resumed run included."""
    batch: int = 8
    """Texts of one step."""
    length: int = 512
    """Most tokens of a text; of a longer one the end is taken."""
    held: int = 32
    """Most texts held out."""
    clip: float = 0.5
    """Most norm of all gradients together."""
    decay: float = 0.0
    """Weight decay."""
    betas: tuple[float, float] = (0.9, 0.95)
    precision: str = "fp32"
    """Of forward and backward: "fp32", or "bf16" where torch's autocast takes it. Weights stay in fp32."""
    seed: int = 0
    judge_every: int = 200
    """Steps between looks at the held-out texts."""
    save_seconds: float = 300.0
    """Seconds between checkpoints."""

    def __post_init__(self) -> None:
        for name in ("lr", "epochs", "clip", "save_seconds"):
            checks.number(name, getattr(self, name), "a number above 0", lambda value: value > 0)
        checks.number("decay", self.decay, "a number from 0 up", lambda value: value >= 0)
        if self.minutes is not None:
            checks.number("minutes", self.minutes, "a number above 0", lambda value: value > 0)
        for name, least in (("warmup", 0), ("batch", 1), ("length", 8), ("held", 1), ("judge_every", 1)):
            checks.whole(name, getattr(self, name), f"a whole number >= {least}", least)
        checks.whole("seed", self.seed, "a whole number >= 0", 0)
        if self.precision not in ("fp32", "bf16"):
            raise OptionError(f"precision={self.precision!r} is not allowed; use fp32 or bf16")

    @property
    def about(self) -> dict[str, Any]:
        """What may not change while a run goes on; the rest is how fast and how long."""
        names = ("warmup", "batch", "length", "held", "decay", "betas", "precision", "seed")
        return {name: getattr(self, name) for name in names}

    def rate(self, step: int, steps: int | None) -> float:
        """Return the learning rate of a step, counted from 0; `steps` is None while nobody knows how many."""
        warmup = self.warmup if steps is None else min(self.warmup, steps // 5)
        if step < warmup:
            return self.lr * (step + 1) / warmup
        if steps is None:
            return self.lr
        through = min(1.0, (step - warmup) / max(1, steps - warmup))
        return self.lr * (FINAL_SHARE + (1 - FINAL_SHARE) * (1 + math.cos(math.pi * through)) / 2)
