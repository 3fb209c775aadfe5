"""What an engine has done so far, counted step by step, for whoever watches it."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import dataclass, field

from outrider.loop.sequence import StepRecord

EVERY = 0.25
"""Seconds between two looks at the bytes in use."""


@dataclass(frozen=True, slots=True)
class Use:
    """What an engine holds at one moment."""

    running: int
    """Requests that hold a cache."""
    waiting: int
    """Requests in the queue."""
    cache_bytes: int
    """Bytes of caches and stored prefixes, at most `EVERY` seconds old while requests run."""
    cache_limit: int | None
    """Most of them; None where there is no limit."""
    budget: int
    """Most draft nodes of one sequence in a pass."""


@dataclass(slots=True)
class Tally:
    """Counters that only rise. One thread writes; others may read, each number for itself.

    A *draft* is what one sequence drafts in one pass. A token that a pass adds after the kept ones, bonus or
    correction, counts among `tokens` and is neither drafted nor accepted.
    """

    steps: int = 0
    """Passes in which any sequence emitted."""
    plain_steps: int = 0
    """Those of them in which nothing was drafted."""
    reading_steps: int = 0
    """Passes in which all only read their prompts."""
    tokens: int = 0
    """Emitted."""
    drafts: int = 0
    drafted: int = 0
    """Nodes of all drafts."""
    accepted: int = 0
    """Drafted tokens that were emitted."""
    accepted_per_position: list[int] = field(default_factory=list)
    """At index i: drafts of which a token at depth i + 1 was emitted."""
    last_nodes: int = 0
    """Draft nodes that the planner let into the last pass, of all sequences."""
    last_sequences: int = 0
    """Sequences of the last pass."""
    cache_bytes: int = 0
    _looked: float = 0.0

    def note(self, records: Many[StepRecord], sequences: int) -> None:
        """Count one pass over so many sequences, by the steps of those that emitted."""
        self.last_sequences = sequences
        self.last_nodes = sum(record.drafted for record in records)
        if not records:
            self.reading_steps += 1
            return
        self.steps += 1
        self.plain_steps += self.last_nodes == 0
        for record in records:
            kept = record.committed.kept
            self.tokens += len(record.committed.tokens)
            self.drafts += record.drafted > 0
            self.drafted += record.drafted
            self.accepted += kept
            self.accepted_per_position += [0] * (kept - len(self.accepted_per_position))
            for depth in range(kept):
                self.accepted_per_position[depth] += 1

    def note_bytes(self, count: Callable[[], int]) -> None:
        """Look at the bytes in use, unless that was done just now."""
        now = time.monotonic()
        if now - self._looked >= EVERY:
            self._looked, self.cache_bytes = now, count()
