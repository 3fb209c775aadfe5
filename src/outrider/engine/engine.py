"""Requests through the loop: submitted at any time, advanced together, each streamed as it goes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Unpack

from outrider.cache.prefix import PrefixStore
from outrider.engine.intake import RequestOptions, request_of
from outrider.engine.meter import MeteredDrafter, MeteredTarget
from outrider.engine.request import Request
from outrider.engine.result import Chunk
from outrider.engine.running import Running
from outrider.engine.scheduler import Limits, Queue, share_rows, urgency
from outrider.engine.tally import Tally, Use
from outrider.errors import OverloadedError
from outrider.loop.accept.table import RuleChoice
from outrider.loop.draft.base import Drafter
from outrider.loop.step import step
from outrider.models.base import LoadedModel, capturing
from outrider.planner.latency import Latency
from outrider.planner.planner import Planner
from outrider.sampling import checks
from outrider.sampling.params import SamplingParams

DEFAULT_BUDGET = 15


@dataclass(frozen=True, slots=True)
class Event:
    """Something to show of one request."""

    request: Request
    chunk: Chunk


class Engine:
    """Advances many requests together, one target pass a step; those that find no room wait.

    A request's text does not depend on what runs beside it, on when it ran, or on what was stored before
    (under a `SAME_TOKENS` rule, on a model whose rows are independent). A request that cannot go on (a model
    that gives no numbers, options that leave no token) ends alone, with `Request.error`. Not thread-safe: one
    thread drives it; `outrider.Service` takes requests from any thread.
    """

    def __init__(
        self,
        model: LoadedModel,
        drafter: Drafter,
        *,
        drafter_name: str,
        rule: str = "auto",
        guarantee: str | None = None,
        lossy: bool = False,
        budget: int | None = None,
        latency: Latency | None = None,
        limits: Limits | None = None,
        prefixes: PrefixStore | None = None,
    ) -> None:
        """`latency` tells what draft nodes cost; with None they count as free, and budgets are filled.

        `prefixes` keeps what prompts and answers left in caches, for later requests that begin alike.
        CapabilityError where the drafter learns from hidden states that the target does not show.
        """
        if drafter.features:
            capturing(model.target, drafter.features, drafter.name)  # CapabilityError
        self._model = model
        self._target = MeteredTarget(model.target)
        self._drafter = MeteredDrafter(drafter)
        self._drafter_name = drafter_name
        self._choice = RuleChoice(rule, guarantee, lossy)
        checked = check_budget(budget)
        self._budget = DEFAULT_BUDGET if checked is None else checked
        self._planner = Planner(self._budget, latency)
        self._limits = Limits() if limits is None else limits
        self._waiting = Queue()
        self._running = Running(self._target, self._drafter, self._limits, prefixes)
        self._numbers = itertools.count()
        self.tally = Tally()

    @property
    def use(self) -> Use:
        """What is in use now, as far as it is known between two steps; any thread may ask."""
        running = len(self._running.requests)
        return Use(
            running=running,
            waiting=len(self._waiting),
            cache_bytes=self.tally.cache_bytes if running else self._running.nbytes(),
            cache_limit=self._limits.cache_bytes,
            budget=self._budget,
        )

    @property
    def busy(self) -> bool:
        """True while any request has not ended."""
        return bool(self._waiting or self._running.requests)

    @property
    def idle(self) -> bool:
        """True while a step would do nothing: all requests have ended or are paused."""
        return all(request.paused for request in (*self._running.requests, *self._waiting))

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the next request's time is over; None where none has a limit."""
        requests = (*self._running.requests, *self._waiting)
        deadlines = [request.deadline for request in requests if request.deadline is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def submit(
        self,
        prompt: Many[int],
        params: SamplingParams,
        **options: Unpack[RequestOptions],
    ) -> Request:
        """Take a request for one sample; `options` are described at `RequestOptions`.

        Requests of a higher `priority` go first, and take the place of lower ones where room is short: those
        wait, and go on later as if nothing had been. After `timeout` seconds a request ends with what it has,
        "timeout". `submit_samples` in `outrider.engine.samples` takes all those that `n` and `best_of` ask
        for; without `sample`, more than one is an OptionError. PromptError where the prompt is empty, too
        long for the context or for `Limits.cache_bytes`, or not of this vocabulary; OptionError where an
        option does not fit this model; OverloadedError where the queue is full.
        """
        self.check_queue()
        request = self.prepare(prompt, params, **options)
        self.enqueue(request)
        return request

    def prepare(
        self,
        prompt: Many[int],
        params: SamplingParams,
        **options: Unpack[RequestOptions],
    ) -> Request:
        """Check a request and make it ready for `enqueue`; any thread may do so. Errors as from `submit`."""
        return request_of(
            self._model,
            self._choice,
            self._limits,
            prompt,
            params,
            number=next(self._numbers),
            drafter_name=self._drafter_name,
            has_law=self._drafter.has_law,
            most_nodes=self._budget,
            draft_caches=self._drafter.caches,
            **options,
        )

    def check_queue(self, ahead: int = 0) -> None:
        """Raise OverloadedError where the queue takes no more, once `ahead` others have joined it."""
        waiting = len(self._waiting) + ahead
        if waiting >= self._limits.waiting + self._running.places:
            raise OverloadedError(waiting, self._running.seconds_a_request)

    def enqueue(self, request: Request) -> None:
        """Have a prepared request wait for its turn."""
        self._waiting.add(request)

    def step(self) -> list[Event]:
        """Advance the running requests by one pass and return what there is to show."""
        events = self._expire()
        self._admit()
        chosen = self._choose()
        if not chosen:
            return events
        for request in chosen:
            request.begin()
        sequences = [request.sequence for request in chosen]
        committed = step(self._target, self._drafter, sequences, self._planner)
        emitting = zip(sequences, committed, strict=True)
        self.tally.note([each.steps[-1] for each, new in emitting if new.tokens], len(sequences))
        self._planner.note_asks(*self._drafter.take_asks())
        target_seconds, draft_seconds = self._target.take(), self._drafter.take()
        for request in chosen:
            sequence = request.sequence
            request.note(target_seconds, draft_seconds, len(sequence.tokens) > sequence.prompt_length)
            chunk = request.chunk()
            if chunk is not None:
                events.append(Event(request, chunk))
            if sequence.finish_reason is not None:
                self._running.release(request)
            elif sequence.prompt_rows > 1:  # it has read a part of its text
                self._running.store_prompt(request)
        self.tally.note_bytes(self._running.nbytes)
        return events

    def abort(self, request: Request, reason: str = "abort") -> Event | None:
        """End a request where it stands and free what it held; None if it had already ended."""
        chunk = None
        if request.result is None:
            request.sequence.finish_reason = request.sequence.finish_reason or reason
            chunk = request.chunk()
        self._waiting.remove(request)
        self._running.release(request)
        return Event(request, chunk) if chunk is not None else None

    def _expire(self) -> list[Event]:
        """End the requests whose time is over."""
        now = time.monotonic()
        late = [
            request
            for request in (*self._running.requests, *self._waiting)
            if request.deadline is not None and now >= request.deadline
        ]
        return [event for request in late if (event := self.abort(request, "timeout")) is not None]

    def _admit(self) -> None:
        """Let waiting requests run, the most urgent first, as far as there is room.

        One whose prompt begins like one that is being read waits for it, and then need not read it again.
        """
        for request in self._waiting:
            if request.paused:
                continue
            if not self._running.may_place(request):
                break
            if self._running.is_reading_for(request):
                continue
            if not self._running.make_place(request, self._budget, self._waiting):
                break
            self._waiting.remove(request)
            self._running.admit(request)

    def _choose(self) -> list[Request]:
        """Return who takes part in the next pass, with their shares of its rows."""
        awake = [request for request in self._running.requests if not request.paused]
        readers = [request for request in awake if request.sequence.pending > 1]
        limits = self._limits
        given = share_rows(readers, limits.read_rows if len(readers) == len(awake) else limits.beside_rows)
        for request in awake:
            request.sequence.prompt_rows = given.get(request.number, 1)
        chosen = [request for request in awake if request.sequence.prompt_rows > 0]
        return sorted(self._running.make_room(chosen, self._budget, self._waiting), key=urgency)


def check_budget(budget: int | None) -> int | None:
    """Return a budget unchanged; OptionError where it is no whole number from 0 up."""
    if budget is not None:
        checks.whole("budget", budget, "a whole number >= 0 (0 drafts nothing)", 0)
    return budget
