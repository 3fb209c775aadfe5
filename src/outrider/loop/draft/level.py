"""Times the steps of a drafter that runs passes of its own: one level of a tree each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from outrider.loop.draft.base import Ask, Drafter
from outrider.loop.draft.growth import Growth, Learned
from outrider.loop.draft.guess import Guess
from outrider.loop.draft.held import Branches, Read, Reader
from outrider.sampling.keyed import KeyedSource
from outrider.sampling.params import SamplingParams

Share = Callable[[int], float]
"""What a level of n nodes takes beside a pass of the target over one row."""


class Timed(Drafter, Protocol):
    """A drafter whose steps can be timed, and which weighs what they cost."""

    cost: float
    """Of a step over one node beside a pass of the target over one row."""

    def probe(self) -> LevelProbe:
        """Return what times its steps."""
        ...

    def price(self, share: Share) -> None:
        """Take what its steps really cost, in place of what the bytes of weights say."""
        ...


class Grows(Protocol):
    """What makes one level of trees: `ModelTreeDrafter`."""

    def grow(self, asks: Sequence[Ask], drafts: Sequence[Growth], chosen: Sequence[Sequence[int]]) -> None:
        """Run the model over the chosen nodes and add their children."""
        ...


class LevelProbe:
    """One step at temperature 0: the drafter's pass over n nodes and the choice of n children for each.

    Implements `planner.cost.Probe`. The nodes are siblings of random tokens after random text; what is timed
    is all that a draft does between two levels of a tree of width n.
    """

    def __init__(self, drafter: Grows, reader: Reader, begin: Callable[[list[int]], Read]) -> None:
        """`begin` returns what a sequence with this text is known by, as before its first draft."""
        self.context_limit = reader.context_limit
        self._drafter, self._reader, self._begin = drafter, reader, begin
        self._random = random.Random(0)

    def fill(self, context: int) -> None:
        """Make a text the one that drafts continue, with `context` tokens before its last one."""
        self._read = self._begin([self._token() for _ in range(context + 1)])
        self._reader.read([(self._read, Branches(), [-1])])

    @torch.inference_mode()
    def time(self, rows: int) -> float:
        """Run one step over `rows` nodes and undo it; return its time in seconds."""
        ask = self._ask(rows)
        growth = Growth(
            ask, Learned(), width=rows, deepest=rows, cost=lambda _: 0.0, drawn=False, beside=None
        )
        tokens = self._random.sample(range(self._reader.vocab_size), min(rows, self._reader.vocab_size))
        growth.found(-1, [Guess(token, 0.9 / rows, None) for token in tokens])
        chosen = growth.choose()
        started = time.perf_counter()
        self._drafter.grow([ask], [growth], [chosen])
        growth.choose()
        seconds = time.perf_counter() - started
        self._read.rewind()
        return seconds

    def _token(self) -> int:
        return self._random.randrange(self._reader.vocab_size)

    def _ask(self, rows: int) -> Ask:
        params = SamplingParams(temperature=0.0)
        return Ask((self._read, None, None), (), rows * (rows + 1), True, params, _NO_DRAWS)


class _NoRule:
    shares_noise = True


_NO_DRAWS = KeyedSource(0, 0).for_draft(_NoRule(), 0)
