"""Times the passes of a real target over chains of rows."""

from __future__ import annotations

import random
import time

from outrider.cache.base import Cache
from outrider.models.base import Batch, Target

PREFILL_CHUNK = 256


class TargetProbe:
    """Runs passes of random tokens through a target, one sequence at a time."""

    def __init__(self, target: Target, *, seed: int = 0) -> None:
        self.context_limit = target.context_limit
        self._target = target
        self._random = random.Random(seed)
        self._cache: Cache = target.new_cache()

    def fill(self, context: int) -> None:
        """Start a sequence and commit `context` random tokens."""
        self._cache = self._target.new_cache()
        while self._cache.length < context:
            rows = min(PREFILL_CHUNK, context - self._cache.length)
            self._target.forward(self._chain(rows, wanted=(rows - 1,)), [self._cache])
            self._cache.keep(range(rows))

    def time(self, rows: int) -> float:
        """Time a pass over a chain of `rows` random tokens, with logits for all, and drop them again."""
        batch = self._chain(rows, wanted=tuple(range(rows)))
        _settle(self._target)
        started = time.perf_counter()
        logits = self._target.forward(batch, [self._cache])
        _settle(self._target)
        seconds = time.perf_counter() - started
        assert logits.shape[0] == rows
        self._cache.keep(())
        return seconds

    def _chain(self, rows: int, wanted: tuple[int, ...]) -> Batch:
        start = self._cache.length
        return Batch(
            tokens=tuple(self._random.randrange(self._target.vocab_size) for _ in range(rows)),
            positions=tuple(range(start, start + rows)),
            sequences=(0,) * rows,
            parents=tuple(range(-1, rows - 1)),
            wanted=wanted,
        )


def _settle(target: Target) -> None:
    """Wait for a GPU to finish what it was given; without one there is nothing to wait for."""
    device = getattr(target, "device", None)
    if getattr(device, "type", "cpu") == "cuda":
        import torch

        torch.cuda.synchronize(device)
