"""One request while it runs: its sequence, its text so far, its clock."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from outrider.cache.base import Cache, CacheKind
from outrider.cache.prefix import Lease
from outrider.engine.result import Chunk, Origin, Result, Speculation, Timing
from outrider.engine.stream import StopGuard, TextStream
from outrider.errors import OutriderError
from outrider.loop.sequence import Sequence, StepRecord
from outrider.loop.verify.pack import PROMPT_ROWS
from outrider.sampling.logprobs import TokenLogprobs
from outrider.types import Guarantee, PassTrace


@dataclass(slots=True)
class Clock:
    """When the request's passes began and ended, in seconds of `time.perf_counter`."""

    begun: float | None = None
    first: float | None = None
    last: float = 0.0
    target: float = 0.0
    target_first: float = 0.0
    draft: float = 0.0


@dataclass(slots=True)
class DraftCache:
    """A cache that the drafter keeps for a request."""

    kind: CacheKind
    cache: Cache
    lease: Lease | None = None
    """What it holds of the stored prefixes; None where nothing of it is stored."""


@dataclass(slots=True)
class Request:
    """A submitted request; `result` stands once it has ended."""

    number: int
    sequence: Sequence
    text: TextStream
    guard: StopGuard
    drafter: str
    priority: int = 0
    """Requests of a higher one go first."""
    deadline: float | None = None
    """When it ends whatever it has, in seconds of `time.monotonic`; None for never."""
    most_rows: int = PROMPT_ROWS
    """Most rows that one pass reads of its text."""
    paused: bool = False
    """Nobody takes what it gives: it keeps what it holds and is left out of passes."""
    lease: Lease | None = None
    """What it holds of the stored prefixes; None while it waits."""
    drafts: list[DraftCache] = field(default_factory=list)
    """The caches that the drafter keeps for it; none while it waits."""
    rewritten: int = 0
    """Bytes of leased pages that its caches have, or will have, copies of."""
    opened: bool = False
    """The drafter has a state for it."""
    clock: Clock = field(default_factory=Clock)
    shown: int = 0
    """Tokens that chunks have carried so far."""
    out: str = ""
    """Text that chunks have carried so far."""
    origins: list[Origin] = field(default_factory=list)
    """Of the tokens that the first `origin_steps` steps emitted."""
    origin_steps: int = 0
    traced: tuple[int, int] = (0, 0)
    """Traces of passes that chunks have carried so far, and their tokens."""
    result: Result | None = None

    @property
    def error(self) -> OutriderError | None:
        """What ended the request, where its finish reason is "error"; `result` holds what there was."""
        return self.sequence.error

    def begin(self) -> None:
        """Note the start of the first pass."""
        if self.clock.begun is None:
            self.clock.begun = time.perf_counter()

    def note(self, target_seconds: float, draft_seconds: float, emitted: bool) -> None:
        """Add one step's times."""
        clock = self.clock
        clock.last = time.perf_counter()
        clock.target += target_seconds
        clock.draft += draft_seconds
        if emitted and clock.first is None:
            clock.first, clock.target_first = clock.last, clock.target

    def chunk(self) -> Chunk | None:
        """Return what may be shown since the last chunk, None if there is nothing new to show."""
        sequence = self.sequence
        emitted = sequence.tokens[sequence.prompt_length :]
        if sequence.finish_reason is not None:
            return self._last_chunk()
        visible = self.guard.feed(self.text.feed(emitted[len(self.text) :]))
        if not visible:
            return None
        self.out += visible
        # A stop string may still cut off tokens without a text of their own: show only what the text needs.
        start, self.shown = self.shown, self._tokens_for(self.out) if sequence.params.stop else len(emitted)
        tokens = emitted[start : self.shown]
        for step in sequence.steps[self.origin_steps :]:
            self.origins += _step_origins(step)
        self.origin_steps = len(sequence.steps)
        return Chunk(
            visible,
            tuple(tokens),
            tuple(self.origins[start : self.shown]),
            logprobs=self._logprobs(start, self.shown) or (),
            passes=self._passes(len(emitted)),
        )

    def _last_chunk(self) -> Chunk:
        self.result = result = self._finish()
        chunk = Chunk(
            result.text[len(self.out) :],
            result.token_ids[self.shown :],
            result.origins[self.shown :],
            result,
            (result.logprobs or ())[self.shown :],
            self._passes(len(result.token_ids)),
        )
        self.shown, self.out = len(result.token_ids), result.text
        return chunk

    def _finish(self) -> Result:
        sequence, clock = self.sequence, self.clock
        # After an interrupt the last step may be half written; what both know of stands.
        count = min(
            len(sequence.tokens) - sequence.prompt_length,
            sum(len(step.committed.tokens) for step in sequence.steps),
        )
        emitted = sequence.tokens[sequence.prompt_length : sequence.prompt_length + count]
        self.text.feed(emitted[len(self.text) :], last=True)
        text = self.text.text
        if sequence.stops.text_end is not None:
            text = text[: sequence.stops.text_end]
            count = max(self._tokens_for(text), self.shown)
        tokens = tuple(sequence.tokens[sequence.prompt_length : sequence.prompt_length + count])
        steps = _cut(sequence.steps, count)
        first_tokens = next((len(s.committed.tokens) for s in steps if s.committed.tokens), 0)
        begun = clock.begun if clock.begun is not None else time.perf_counter()
        first = clock.first if clock.first is not None else max(clock.last, begun)
        return Result(
            text=text,
            token_ids=tokens,
            origins=_origins(steps),
            finish_reason=sequence.finish_reason or "abort",
            prompt_tokens=sequence.prompt_length,
            seed=sequence.seed,
            timing=Timing(
                prefill_seconds=first - begun,
                decode_seconds=max(clock.last - first, 0.0),
                decode_tokens=len(tokens) - first_tokens,
                target_seconds=clock.target,
                decode_target_seconds=clock.target - clock.target_first,
                draft_seconds=clock.draft,
            ),
            speculation=_speculation(steps, self.drafter, sequence.rule.name, sequence.rule.guarantee),
            logprobs=self._logprobs(0, len(tokens)),
            prompt_logprobs=self.prompt_logprobs,
            sample=sequence.request,
            mean_logprob=self._mean_logprob(len(tokens)),
        )

    def _logprobs(self, start: int, end: int) -> tuple[TokenLogprobs, ...] | None:
        """Return the logprobs of these emitted tokens, None where they were not asked for."""
        if self.sequence.params.logprobs is None or self.sequence.record is None:
            return None
        return tuple(self.sequence.record.emitted[start:end])

    @property
    def prompt_logprobs(self) -> tuple[TokenLogprobs | None, ...] | None:
        """Those of the prompt's tokens that were read so far, None where they were not asked for."""
        if self.sequence.params.prompt_logprobs is None or self.sequence.record is None:
            return None
        return tuple(self.sequence.record.prompt)

    def _passes(self, count: int) -> tuple[PassTrace, ...]:
        """Return the passes that emitted the tokens up to `count`, from where the last chunk ended."""
        found: list[PassTrace] = []
        passes = self.sequence.passes
        while self.traced[0] < len(passes) and self.traced[1] < count:
            number, before = self.traced
            found.append(passes[number].shortened(count - before))
            self.traced = number + 1, before + len(found[-1].emitted)
        return tuple(found)

    def _mean_logprob(self, count: int) -> float | None:
        if not self.sequence.params.ranks or self.sequence.record is None or count == 0:
            return None
        return math.fsum(self.sequence.record.drawn[:count]) / count

    def _tokens_for(self, text: str) -> int:
        """Return the fewest tokens whose text covers `text`."""
        tokens = self.sequence.tokens[self.sequence.prompt_length :]
        low, high = 0, len(tokens)
        while low < high:
            middle = (low + high) // 2
            if len(self.text.decode(tokens[:middle]).rstrip("\ufffd")) >= len(text):
                high = middle
            else:
                low = middle + 1
        return low


def _cut(steps: list[StepRecord], count: int) -> list[StepRecord]:
    """Return the steps that emitted the first `count` tokens, the last one shortened where need be."""
    cut: list[StepRecord] = []
    for step in steps:
        take = min(len(step.committed.tokens), count)
        if take == 0 and step.committed.tokens:
            break
        count -= take
        cut.append(step.shortened(take))
    return cut


def _origins(steps: list[StepRecord]) -> tuple[Origin, ...]:
    return tuple(origin for step in steps for origin in _step_origins(step))


def _step_origins(step: StepRecord) -> list[Origin]:
    kept, emitted = step.committed.kept, len(step.committed.tokens)
    origins = [Origin.DRAFTED] * kept
    if emitted > kept:
        if not step.drafted:
            origins.append(Origin.PLAIN)
        else:
            origins.append(Origin.BONUS if step.ended_at_leaf else Origin.CORRECTED)
    return origins


def _speculation(steps: list[StepRecord], drafter: str, rule: str, guarantee: Guarantee) -> Speculation:
    deepest = max((step.reached for step in steps), default=0)
    return Speculation(
        drafter=drafter,
        rule=rule,
        guarantee=guarantee,
        passes=sum(bool(step.committed.tokens) for step in steps),
        drafted=sum(step.drafted for step in steps),
        accepted=sum(step.committed.kept for step in steps),
        tokens=sum(len(step.committed.tokens) for step in steps),
        drafted_per_position=tuple(sum(s.reached > depth for s in steps) for depth in range(deepest)),
        accepted_per_position=tuple(sum(s.committed.kept > depth for s in steps) for depth in range(deepest)),
    )
