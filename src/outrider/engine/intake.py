"""From what a user asks to a request that can run: everything is checked here, before anything runs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence as Many
from typing import TypedDict

from outrider.cache.base import CacheKind
from outrider.engine.grammar import grammar_of
from outrider.engine.options import banned_sequences, check_options
from outrider.engine.request import Request
from outrider.engine.scheduler import Limits
from outrider.engine.stream import StopGuard, TextStream
from outrider.errors import CapabilityError, OptionError, PromptError, counted
from outrider.loop.accept.table import RuleChoice, resolve_rule
from outrider.loop.commit.record import record_of
from outrider.loop.commit.stops import Stops
from outrider.loop.sequence import Sequence
from outrider.loop.verify.pack import LOGPROB_ROWS
from outrider.models.base import LoadedModel
from outrider.sampling import checks
from outrider.sampling.constraint import Constraint
from outrider.sampling.draws import DrawSource
from outrider.sampling.keyed import KeyedSource
from outrider.sampling.params import SamplingParams
from outrider.sampling.processing import processing_of
from outrider.types import Trace


class RequestOptions(TypedDict, total=False):
    """What may be said of one request, beside its prompt and its sampling options."""

    sample: int | None
    """Tells apart samples of one prompt and seed: each has noise of its own."""
    constraint: Constraint | None
    """Its own, which masks what may follow."""
    draws: DrawSource | None
    """Where its random decisions come from, in place of the seed."""
    priority: int
    """Requests of a higher one go first, and take the place of lower ones where room is short."""
    timeout: float | None
    """Seconds after which it ends with what it has."""
    tenant: str
    """On whose behalf it runs: what drafters learn from texts is never used for another tenant's."""
    rule: RuleChoice | None
    """Its own rule or guarantee, in place of the engine's."""
    trace: Trace | None
    """What chunks tell of the passes (`Chunk.passes`); None for nothing."""
    budget: int | None
    """Most draft nodes of one pass, up to the engine's own; 0 is plain decoding."""


def request_of(
    model: LoadedModel,
    choice: RuleChoice,
    limits: Limits,
    prompt: Many[int],
    params: SamplingParams,
    *,
    number: int,
    drafter_name: str,
    has_law: bool,
    most_nodes: int,
    draft_caches: Many[CacheKind] = (),
    sample: int | None = None,
    constraint: Constraint | None = None,
    draws: DrawSource | None = None,
    priority: int = 0,
    timeout: float | None = None,
    tenant: str = "",
    rule: RuleChoice | None = None,
    budget: int | None = None,
    trace: Trace | None = None,
) -> Request:
    """Return a request that has passed every check; what is wrong raises as `Engine.submit` says."""
    if sample is None and params.samples > 1:
        option = "n" if params.best_of is None else "best_of"
        raise OptionError(
            f"{option}={params.samples} asks for several texts, and this runs one; use generate, or "
            f"leave {option} out"
        )
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise checks.refusal("priority", priority, "a whole number, higher ones go first")
    if not isinstance(tenant, str):
        raise checks.refusal("tenant", tenant, "a text")
    if budget is not None:
        allowed = f"a whole number from 0 (drafts nothing) to {most_nodes}, the engine's own"
        checks.whole("budget", budget, allowed, 0, most_nodes)
    if trace is not None and not isinstance(trace, Trace):
        raise checks.refusal("trace", trace, "one of outrider.types.Trace, or None")
    deadline = None
    if timeout is not None:
        checks.number("timeout", timeout, "seconds, a number above 0", lambda seconds: seconds > 0)
        deadline = time.monotonic() + timeout
    target, tokenizer = model.target, model.tokenizer
    check_prompt(prompt, target.vocab_size, target.context_limit)
    resolved = resolve_rule(rule or choice, params, has_law=has_law, branches=target.can_branch)
    room = target.context_limit - len(prompt)
    check_options(params, target.vocab_size, room)
    banned = banned_sequences(params, tokenizer)
    last_length = len(prompt) + (room if params.max_tokens is None else min(room, params.max_tokens))
    ends = frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else tokenizer.eos_ids)
    ends_here = [token for token in ends if token < target.vocab_size]
    grammar = grammar_of(model, params, ends_here)
    if grammar is not None and constraint is not None:
        raise OptionError(f"{grammar.name} and a constraint cannot be given together; keep one of them")
    cache = target.new_cache()
    if not cache.can_rewind:
        raise CapabilityError(
            f"{model.name} keeps a state that cannot be rewound, so it cannot verify drafts"
        )
    if limits.cache_bytes is not None:
        most = cache.bytes_with(last_length + most_nodes)
        drafts = sum(kind.bytes_for(last_length, most_nodes) for kind in draft_caches)
        if most + drafts > limits.cache_bytes:
            own = f"{most + drafts} bytes" + (f" ({drafts} of them the drafter's)" if drafts else "")
            raise PromptError(
                f"this request may come to {last_length} tokens, whose keys and values take {own}, but "
                f"cache_bytes={limits.cache_bytes}; allow more, shorten the prompt, or give a smaller "
                "max_tokens"
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
        rule=resolved,
        cache=cache,
        draft_state=None,
        stops=Stops(ends, params.stop, tokenizer.decode, params.min_tokens, is_over),
        last_length=last_length,
        request=sample or 0,
        tenant=tenant,
        record=record_of(params),
        trace=trace,
        prompt_rows=0,
        budget=budget,
        processing=processing,
    )
    return Request(
        number,
        sequence,
        TextStream(tokenizer.decode),
        StopGuard(params.stop),
        "none" if budget == 0 else drafter_name,
        priority=priority,
        deadline=deadline,
        most_rows=limits.read_rows if params.prompt_logprobs is None else LOGPROB_ROWS,
    )


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
