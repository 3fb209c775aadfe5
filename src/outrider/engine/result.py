"""What a request gives back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from outrider.sampling.logprobs import TokenLogprobs
from outrider.types import Guarantee, PassTrace


class Origin(StrEnum):
    """Where an emitted token came from."""

    DRAFTED = "drafted"
    """Guessed by the drafter and kept."""
    CORRECTED = "corrected"
    """Drawn from the target where every guess was turned down."""
    BONUS = "bonus"
    """Drawn from the target after a draft that was kept to its end."""
    PLAIN = "plain"
    """Drawn from the target in a pass without a draft."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall-clock times of one request, in seconds.

    `prefill_seconds` runs from the start of the request's first pass to its first tokens; `decode_seconds`
    from there to its last. `decode_tokens` were emitted in the latter, so their quotient is the decode speed
    (None where the request ended with its first tokens).
    """

    prefill_seconds: float
    decode_seconds: float
    decode_tokens: int
    target_seconds: float
    """Time inside target passes, prefill included."""
    decode_target_seconds: float
    """Time inside target passes after the first tokens."""
    draft_seconds: float

    @property
    def decode_tokens_per_second(self) -> float | None:
        """Tokens per second after the first ones."""
        return self.decode_tokens / self.decode_seconds if self.decode_seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Speculation:
    """Counters of one request. A pass emits its accepted tokens and one more, unless a stop cut the run."""

    drafter: str
    rule: str
    guarantee: Guarantee
    passes: int
    drafted: int
    accepted: int
    """Drafted tokens that were emitted."""
    tokens: int
    drafted_per_position: tuple[int, ...] = ()
    """At index i: passes whose draft reached depth i + 1."""
    accepted_per_position: tuple[int, ...] = ()
    """At index i: passes that kept a token at depth i + 1."""

    @property
    def mean_accepted_length(self) -> float:
        """τ: tokens per target pass, correction or bonus included; 1 for plain decoding."""
        return self.tokens / self.passes if self.passes else 0.0

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted among drafted tokens; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True, slots=True)
class Result:
    """One finished request."""

    text: str
    token_ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    finish_reason: str
    """"stop", "length", "abort" or "error"."""
    prompt_tokens: int
    seed: int
    """The seed used; drawn at random where none was given."""
    timing: Timing
    speculation: Speculation
    logprobs: tuple[TokenLogprobs, ...] | None = None
    """One entry for each of `token_ids`, where the option `logprobs` was given."""
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
    """One entry for each token of the prompt that was read, None for the first, where asked for."""
    sample: int = 0
    """Which sample of its prompt this is; the same seed and number give it again."""
    mean_logprob: float | None = None
    """Mean logprob of the tokens under the laws they were drawn from, where `best_of` had to choose."""
    others: tuple[Result, ...] = ()
    """The other samples, where several were wanted: best first with `best_of`, else in order."""

    @property
    def samples(self) -> tuple[Result, ...]:
        """All samples that were wanted (`n`), this one first; each by itself, without `others`."""
        return (replace(self, others=()), *self.others) if self.others else (self,)

    @property
    def completion_tokens(self) -> int:
        """Number of emitted tokens."""
        return len(self.token_ids)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a stream: new text with its tokens; the last one carries the whole result."""

    text: str
    token_ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    result: Result | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()
    """One entry for each token, where the option `logprobs` was given."""
    passes: tuple[PassTrace, ...] = ()
    """Those that have emitted since the last chunk, where `trace` was given. Their tokens may be ahead of
    the chunk's, whose text is held back while a stop string or a character may still be completed."""
