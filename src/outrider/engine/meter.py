"""Stopwatches around the two things that take time: the target and the drafter."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

from torch import Tensor

from outrider.cache.base import Cache, Page
from outrider.loop.draft.authors import authors_of
from outrider.loop.draft.base import Ask, Drafter, Rows
from outrider.models.base import Batch, CapturingTarget, PassOutput, Target
from outrider.types import DraftTree


class MeteredTarget:
    """A target that adds up the seconds its passes take."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.vocab_size, self.context_limit = target.vocab_size, target.context_limit
        self.can_branch, self.can_capture = target.can_branch, target.can_capture
        self._seconds = 0.0

    def new_cache(self, pages: Sequence[Page] = ()) -> Cache:
        """Pass on."""
        return self._target.new_cache(pages)

    def forward(self, batch: Batch, caches: Sequence[Cache]) -> Tensor:
        """Pass on, timed; waits for the device where there is one."""
        start = time.perf_counter()
        logits = self._target.forward(batch, caches)
        self._add(start, logits)
        return logits

    def run(self, batch: Batch, caches: Sequence[Cache], *, captured: Sequence[int] = ()) -> PassOutput:
        """Pass on, timed likewise; the target can capture."""
        start = time.perf_counter()
        output = cast(CapturingTarget, self._target).run(batch, caches, captured=captured)
        self._add(start, output.logits)
        return output

    def _add(self, start: float, logits: Tensor) -> None:
        if logits.is_cuda:
            import torch

            torch.cuda.synchronize(logits.device)
        self._seconds += time.perf_counter() - start

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
        self.speculates, self.features = drafter.speculates, drafter.features
        self.caches = drafter.caches
        self._seconds = 0.0
        self._asks, self._asked = 0, 0.0

    def open(self, prompt: Sequence[int], tenant: str = "", *caches: Sequence[Cache]) -> Any:
        """Pass on."""
        return self._drafter.open(prompt, tenant, *caches)

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

    def feed(self, state: Any, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        """Pass on, timed; no part of a draft's price, since it comes whether one is asked for or not."""
        begun = time.perf_counter()
        self._drafter.feed(state, start, tokens, hidden)
        self._seconds += time.perf_counter() - begun

    def extend(self, state: Any, tokens: Sequence[int], kept: int) -> None:
        """Pass on, timed."""
        start = time.perf_counter()
        self._drafter.extend(state, tokens, kept)
        self._seconds += time.perf_counter() - start

    def authors(self, state: Any, tree: DraftTree) -> Sequence[str]:
        """Pass on."""
        return authors_of(self._drafter, state, tree)

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
