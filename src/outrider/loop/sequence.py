"""What the loop knows of one sequence while it runs: the state at the edge of the pure middle."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from outrider.cache.base import Cache
from outrider.errors import OutriderError
from outrider.loop.accept.base import Rule
from outrider.loop.commit.record import Record
from outrider.loop.commit.stops import Stops
from outrider.planner.breaker import Breaker
from outrider.sampling.draws import DrawSource
from outrider.sampling.params import SamplingParams
from outrider.sampling.processing import Processing
from outrider.types import Committed, PassTrace, Trace


@dataclass(slots=True)
class Sequence:
    """One sequence between its prompt and its end.

    `tokens` holds prompt and output. The cache holds all of them but the last (fewer while the prompt is
    still being read): the missing ones are the *pending* tokens, which the next pass runs.
    """

    tokens: list[int]
    prompt_length: int
    params: SamplingParams
    seed: int
    draws: DrawSource
    """Where its random decisions come from."""
    rule: Rule
    cache: Cache
    draft_state: Any
    stops: Stops
    last_length: int
    """Most tokens, prompt included, that the sequence may come to."""
    prompt_rows: int
    """Most pending tokens that the next pass runs; with more of them it only reads."""
    budget: int | None = None
    """Most draft nodes of one pass; None leaves it to the planner alone."""
    processing: Processing | None = None
    """What the options do to logits, over `tokens` itself; None where they do nothing."""
    record: Record | None = None
    """Where the logprobs that were asked for are noted; None where none were."""
    trace: Trace | None = None
    """What is kept of its passes in `passes`; None where nobody looks."""
    request: int = 0
    """Tells apart sequences that share a seed on purpose (several samples of one prompt)."""
    tenant: str = ""
    """On whose behalf it runs: what drafters learn across sequences is kept apart by it."""
    told: int = 0
    """How many tokens the drafter has been told of; what its caches hold behind them may be guesses."""
    breaker: Breaker = field(default_factory=Breaker)
    """Keeps drafts that don't pay from being made."""
    steps: list[StepRecord] = field(default_factory=list)
    passes: list[PassTrace] = field(default_factory=list)
    """Those that emitted, where `trace` asks for them."""
    finish_reason: str | None = None
    error: OutriderError | None = None
    """What ended the sequence, where `finish_reason` is "error"."""

    @property
    def pending(self) -> int:
        """Number of committed tokens that the cache does not hold yet."""
        return len(self.tokens) - self.cache.length

    @property
    def wants_prompt_rows(self) -> bool:
        """True while logits are wanted for the prompt's own tokens."""
        return self.params.prompt_logprobs is not None and self.cache.length < self.prompt_length

    @property
    def room(self) -> int:
        """How many more tokens may be emitted."""
        return self.last_length - len(self.tokens)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one step did for one sequence, for its counters."""

    drafted: int
    """Nodes in the draft tree."""
    reached: int
    """Depth of the tree."""
    ended_at_leaf: bool
    """The kept path ended at a node without children, so the last token is a bonus."""
    committed: Committed

    def shortened(self, tokens: int) -> StepRecord:
        """Return the record of this step as if it had emitted only its first `tokens` tokens."""
        committed = self.committed
        cut = Committed(committed.tokens[:tokens], min(committed.kept, tokens), committed.finish_reason)
        return replace(self, committed=cut)
