"""Stopwatches around the two things that take time: the target and the drafter."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from outrider.cache.base import Cache, Page
from outrider.loop.draft.base import Ask, Drafter, Rows
from outrider.models.base import Batch, Target
from outrider.types import DraftTree


class MeteredTarget:
    """A target that adds up the seconds its passes take."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.vocab_size, self.context_limit = target.vocab_size, target.context_limit
        self.can_branch = target.can_branch
        self._seconds = 0.0

    def new_cache(self, pages: Sequence[Page] = ()) -> Cache:
        """Pass on."""
        return self._target.new_cache(pages)

    def forward(self, batch: Batch, caches: Sequence[Cache]) -> Tensor:
        """Pass on, timed; waits for the device where there is one."""
        start = time.perf_counter()
        logits = self._target.forward(batch, caches)
        if logits.is_cuda:
            import torch

            torch.cuda.synchronize(logits.device)
        self._seconds += time.perf_counter() - start
        return logits

    def take(self) -> float:
        """Return the seconds since the last call."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds


class MeteredDrafter:
    """A drafter that adds up the seconds its proposals and updates take."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self.name, self.has_law = drafter.name, drafter.has_law
        self.weighs_costs, self.observes = drafter.weighs_costs, drafter.observes
        self.speculates = drafter.speculates
        self._seconds = 0.0
        self._asks, self._asked = 0, 0.0

    def open(self, prompt: Sequence[int], tenant: str = "") -> Any:
        """Pass on."""
        return self._drafter.open(prompt, tenant)

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Pass on, timed."""
        start = time.perf_counter()
        trees = self._drafter.propose(asks)
        took = time.perf_counter() - start
        self._seconds += took
        self._asks += len(asks)
        self._asked += took
        return trees

    def observe(self, state: Any, tree: DraftTree, rows: Rows) -> None:
        """Pass on, timed."""
        start = time.perf_counter()
        self._drafter.observe(state, tree, rows)
        took = time.perf_counter() - start
        self._seconds += took
        self._asked += took

    def extend(self, state: Any, tokens: Sequence[int], kept: int) -> None:
        """Pass on, timed."""
        start = time.perf_counter()
        self._drafter.extend(state, tokens, kept)
        self._seconds += time.perf_counter() - start

    def close(self, state: Any) -> None:
        """Pass on."""
        self._drafter.close(state)

    def take(self) -> float:
        """Return the seconds since the last call."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def take_asks(self) -> tuple[int, float]:
        """Return how many drafts were asked for since the last call, and the milliseconds they took.

        What was learned from the target's rows for them is part of that.
        """
        asks, milliseconds = self._asks, 1000 * self._asked
        self._asks, self._asked = 0, 0.0
        return asks, milliseconds
