"""Requests through the loop: submitted at any time, advanced together, each streamed as it goes."""

from __future__ import annotations

import secrets
from collections.abc import Sequence as Many
from dataclasses import dataclass

from outrider.engine.grammar import grammar_of
from outrider.engine.meter import MeteredDrafter, MeteredTarget
from outrider.engine.options import banned_sequences, check_options
from outrider.engine.request import Request
from outrider.engine.result import Chunk
from outrider.engine.stream import StopGuard, TextStream
from outrider.errors import CapabilityError, OptionError, PromptError, counted
from outrider.loop.accept.table import RuleChoice, resolve_rule
from outrider.loop.commit.record import record_of
from outrider.loop.commit.stops import Stops
from outrider.loop.draft.base import Drafter
from outrider.loop.sequence import Sequence
from outrider.loop.step import step
from outrider.loop.verify.pack import LOGPROB_ROWS, PROMPT_ROWS
from outrider.models.base import LoadedModel
from outrider.planner.latency import Latency
from outrider.sampling.constraint import Constraint
from outrider.sampling.draws import DrawSource
from outrider.sampling.keyed import KeyedSource
from outrider.sampling.params import SamplingParams
from outrider.sampling.processing import processing_of

DEFAULT_BUDGET = 15
MAX_RUNNING = 16


@dataclass(frozen=True, slots=True)
class Event:
    """Something to show of one request."""

    request: Request
    chunk: Chunk


class Engine:
    """Advances up to `max_running` requests together, one target pass a step; later ones wait in order.

    A request's text does not depend on what runs beside it (under a `SAME_TOKENS` rule, on a model whose rows
    are independent). A request that cannot go on (a model that gives no numbers, options that leave no token)
    ends alone, with `Request.error`. Not thread-safe: one thread drives it.
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
        max_running: int = MAX_RUNNING,
    ) -> None:
        """`latency` tells what draft nodes cost; with None they count as free, and budgets are filled."""
        self._model = model
        self._target = MeteredTarget(model.target)
        self._drafter = MeteredDrafter(drafter)
        self._drafter_name = drafter_name
        self._choice = RuleChoice(rule, guarantee, lossy)
        if max_running < 1:
            raise OptionError(f"max_running={max_running} is not allowed; give a whole number >= 1")
        checked = check_budget(budget)
        self._budget = DEFAULT_BUDGET if checked is None else checked
        self._latency = latency
        self._max_running = max_running
        self._waiting: list[Request] = []
        self._running: list[Request] = []
        self._submitted = 0

    @property
    def busy(self) -> bool:
        """True while any request has not ended."""
        return bool(self._waiting or self._running)

    def submit(
        self,
        prompt: Many[int],
        params: SamplingParams,
        *,
        sample: int | None = None,
        constraint: Constraint | None = None,
        draws: DrawSource | None = None,
    ) -> Request:
        """Take a request for one sample; `constraint` is its own and masks what may follow.

        Random decisions come from the seed, or from `draws` where given.

        `sample` tells apart samples of one prompt and seed: each has noise of its own. `submit_samples` in
        `outrider.engine.samples` takes all those that `n` and `best_of` ask for; without `sample`, more than
        one is an OptionError. PromptError where the prompt is empty, too long, or not of this vocabulary;
        OptionError where an option does not fit this model.
        """
        if sample is None and params.samples > 1:
            option = "n" if params.best_of is None else "best_of"
            raise OptionError(
                f"{option}={params.samples} asks for several texts, and this runs one; use generate, or "
                f"leave {option} out"
            )
        target, tokenizer = self._model.target, self._model.tokenizer
        check_prompt(prompt, target.vocab_size, target.context_limit)
        rule = resolve_rule(self._choice, params, has_law=self._drafter.has_law, branches=target.can_branch)
        room = target.context_limit - len(prompt)
        check_options(params, target.vocab_size, room)
        banned = banned_sequences(params, tokenizer)
        last_length = len(prompt) + (room if params.max_tokens is None else min(room, params.max_tokens))
        ends = frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else tokenizer.eos_ids)
        ends_here = [token for token in ends if token < target.vocab_size]
        grammar = grammar_of(self._model, params, ends_here)
        if grammar is not None and constraint is not None:
            raise OptionError(f"{grammar.name} and a constraint cannot be given together; keep one of them")
        cache = target.new_cache()
        if not cache.can_rewind:
            raise CapabilityError(
                f"{self._model.name} keeps a state that cannot be rewound, so it cannot verify drafts"
            )
        tokens = list(prompt)
        processing = processing_of(
            params,
            tokens,
            len(prompt),
            end_tokens=ends_here,
            banned_sequences=banned,
            constraint=constraint or grammar,
        )
        is_over = None if processing is None else processing.is_over
        seed = secrets.randbits(64) if params.seed is None else params.seed
        sequence = Sequence(
            tokens=tokens,
            prompt_length=len(prompt),
            params=params,
            seed=seed,
            draws=KeyedSource(seed, sample or 0) if draws is None else draws,
            rule=rule,
            cache=cache,
            draft_state=self._drafter.open(prompt),
            stops=Stops(ends, params.stop, tokenizer.decode, params.min_tokens, is_over),
            last_length=last_length,
            request=sample or 0,
            record=record_of(params),
            prompt_rows=PROMPT_ROWS if params.prompt_logprobs is None else LOGPROB_ROWS,
            processing=processing,
        )
        request = Request(
            self._submitted,
            sequence,
            TextStream(tokenizer.decode),
            StopGuard(params.stop),
            self._drafter_name,
        )
        self._submitted += 1
        self._waiting.append(request)
        return request

    def step(self) -> list[Event]:
        """Advance every running request by one pass and return what there is to show."""
        while self._waiting and len(self._running) < self._max_running:
            self._running.append(self._waiting.pop(0))
        running = list(self._running)
        if not running:
            return []
        for request in running:
            request.begin()
        costs = self._latency.costs(len(running), self._budget) if self._latency else ()
        step(self._target, self._drafter, [request.sequence for request in running], self._budget, costs)
        target_seconds, draft_seconds = self._target.take(), self._drafter.take()
        events = []
        for request in running:
            sequence = request.sequence
            request.note(target_seconds, draft_seconds, len(sequence.tokens) > sequence.prompt_length)
            chunk = request.chunk()
            if chunk is not None:
                events.append(Event(request, chunk))
            if sequence.finish_reason is not None:
                self._release(request)
        return events

    def abort(self, request: Request) -> Event | None:
        """End a request where it stands and free what it held; None if it had already ended."""
        chunk = None
        if request.result is None:
            request.sequence.finish_reason = request.sequence.finish_reason or "abort"
            chunk = request.chunk()
        self._release(request)
        return Event(request, chunk) if chunk is not None else None

    def _release(self, request: Request) -> None:
        """Free what a request holds; nothing where that was done. An interrupt leaves it to be done again."""
        if not any(other is request for other in [*self._waiting, *self._running]):
            return
        self._drafter.close(request.sequence.draft_state)
        request.sequence.cache.keep(())  # an interrupted pass has left its rows pending
        request.sequence.cache.truncate(0)
        self._waiting = [other for other in self._waiting if other is not request]
        self._running = [other for other in self._running if other is not request]


def check_prompt(prompt: Many[int], vocab_size: int, context_limit: int) -> None:
    """Raise PromptError where a prompt cannot be run: it must leave room for at least one token."""
    if not prompt:
        raise PromptError("the prompt is empty; give at least one token of text")
    if len(prompt) >= context_limit:
        raise PromptError(
            f"the prompt has {counted(len(prompt), 'token')}, but this model's context holds {context_limit} "
            "and one must be left for the answer; shorten it by at least "
            f"{counted(len(prompt) - context_limit + 1, 'token')}"
        )
    bad = next((token for token in prompt if not 0 <= token < vocab_size), None)
    if bad is not None:
        raise PromptError(f"token id {bad} is outside this model's vocabulary (0 to {vocab_size - 1})")


def check_budget(budget: int | None) -> int | None:
    """Return a budget unchanged; OptionError where it is no whole number from 0 up."""
    whole = isinstance(budget, int) and not isinstance(budget, bool)
    if budget is not None and not (whole and budget >= 0):
        raise OptionError(f"budget={budget!r} is not allowed; give a whole number >= 0 (0 drafts nothing)")
    return budget
