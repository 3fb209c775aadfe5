"""What peers share: how one is built, where it stops, and a result from the times its tokens came."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from outrider.engine.result import Origin, Result, Speculation, Timing
from outrider.models.base import LoadedModel, Tokenizer
from outrider.sampling.params import SamplingParams
from outrider.types import Guarantee

NAN = float("nan")


class Peer(Protocol):
    """Another engine with the loaded model's weights; it decodes one prompt at a time, greedily."""

    name: str

    @classmethod
    def build(cls, model: str, loaded: LoadedModel, weights: str | None) -> Self:
        """Load the model called `model` once more, into the other engine.

        `weights`: the precision asked for (`--peer NAME:WEIGHTS`), None where the peer is to choose.
        LoadError where the engine is not installed or cannot read the model; OptionError, CapabilityError
        or UnknownNameError where it does not run this model or these weights.
        """
        ...

    def generate(self, prompt: list[int], params: SamplingParams) -> Result:
        """Return the result for one prompt; decode time runs from its first token to its last."""
        ...


@dataclass(slots=True)
class TokenClock:
    """When a request started, and when each of its tokens came."""

    started: float = field(default_factory=time.perf_counter)
    arrivals: list[float] = field(default_factory=list)

    def tick(self) -> None:
        """Note that a token came."""
        self.arrivals.append(time.perf_counter())


def end_tokens(tokenizer: Tokenizer, params: SamplingParams) -> frozenset[int]:
    """Return the tokens that end an answer."""
    own = frozenset[int]() if params.ignore_eos else tokenizer.eos_ids
    return own | frozenset(params.stop_token_ids)


def most_tokens(prompt: Sequence[int], params: SamplingParams, context_limit: int) -> int:
    """Return how many tokens an answer may have: what was asked for, as far as the context goes."""
    assert params.greedy
    assert params.max_tokens is not None
    assert not params.stop, "stop strings are not part of a benchmark"
    return min(params.max_tokens, context_limit - len(prompt))


def peer_result(
    name: str,
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    tokens: Sequence[int],
    clock: TokenClock,
    params: SamplingParams,
) -> Result:
    """Return the result of a peer that emitted `tokens`, one a pass, at the times on the clock."""
    first, last = clock.arrivals[0], clock.arrivals[-1]
    assert len(clock.arrivals) == len(tokens)
    return Result(
        text=tokenizer.decode(tokens),
        token_ids=tuple(tokens),
        origins=(Origin.PLAIN,) * len(tokens),
        finish_reason="stop" if tokens[-1] in end_tokens(tokenizer, params) else "length",
        prompt_tokens=len(prompt),
        seed=params.seed or 0,
        timing=Timing(
            prefill_seconds=first - clock.started,
            decode_seconds=last - first,
            decode_tokens=len(tokens) - 1,
            target_seconds=NAN,
            decode_target_seconds=NAN,
            draft_seconds=0.0,
        ),
        speculation=Speculation(
            drafter=name,
            rule="greedy",
            guarantee=Guarantee.SAME_LAW,
            passes=len(tokens),
            drafted=0,
            accepted=0,
            tokens=len(tokens),
        ),
    )
