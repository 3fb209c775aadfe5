"""How one request is sampled and when it ends."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from outrider.errors import OptionError

_SEED_LOW, _SEED_HIGH = -(2**63), 2**64 - 1


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Options of one request; checked when built, OptionError names the option, the value and the range.

    The filters apply in the order temperature, top_k, top_p, min_p (see `outrider.sampling.law`).
    """

    temperature: float = 0.0
    """Divides the logits; 0 takes the most likely token, the lowest id among equals."""
    top_k: int = 0
    """Keep the k most likely tokens and all that tie with the k-th; 0 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of most likely tokens whose mass reaches this; 1 keeps all."""
    min_p: float = 0.0
    """Keep tokens at least this likely relative to the most likely one; 0 keeps all."""
    seed: int | None = None
    """The same seed gives the same text; None draws one at random."""
    max_tokens: int | None = 128
    """Most tokens emitted; None goes on until the context ends."""
    stop: tuple[str, ...] = ()
    """Texts that end the request, themselves left out; one string or several."""
    stop_token_ids: tuple[int, ...] = ()
    """Tokens that end the request, besides the model's own end tokens."""
    ignore_eos: bool = False
    """Go on past the model's end tokens."""

    def __post_init__(self) -> None:
        _number("temperature", self.temperature, "a finite number >= 0", lambda t: t >= 0)
        _whole("top_k", self.top_k, "a whole number >= 0 (0 keeps all)", 0)
        _number("top_p", self.top_p, "a number with 0 < top_p <= 1 (1 keeps all)", lambda p: 0 < p <= 1)
        _number("min_p", self.min_p, "a number from 0 to 1 (0 keeps all)", lambda p: 0 <= p <= 1)
        if self.seed is not None:
            _whole("seed", self.seed, "a 64-bit whole number, or None", _SEED_LOW, _SEED_HIGH)
        if self.max_tokens is not None:
            _whole("max_tokens", self.max_tokens, "a whole number >= 1, or None for the whole context", 1)
        object.__setattr__(self, "stop", _texts(self.stop))
        object.__setattr__(self, "stop_token_ids", _ids(self.stop_token_ids))
        if not isinstance(self.ignore_eos, bool):
            raise _refusal("ignore_eos", self.ignore_eos, "True or False")

    @property
    def greedy(self) -> bool:
        """True at temperature 0, where every law is a point mass."""
        return self.temperature == 0


def _refusal(option: str, value: object, allowed: str) -> OptionError:
    return OptionError(f"{option}={value!r} is not allowed; give {allowed}")


def _number(option: str, value: Any, allowed: str, fits: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _refusal(option, value, allowed)
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number beyond the floats
        finite = False
    if not finite or not fits(value):
        raise _refusal(option, value, allowed)


def _whole(option: str, value: Any, allowed: str, low: int, high: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refusal(option, value, allowed)
    if value < low or (high is not None and value > high):
        raise _refusal(option, value, allowed)


def _texts(value: Any) -> tuple[str, ...]:
    allowed = "a non-empty string or several of them"
    if value is None:
        return ()
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, Iterable) or isinstance(texts, bytes):
        raise _refusal("stop", value, allowed)
    texts = tuple(texts)
    if not all(isinstance(text, str) and text for text in texts):
        raise _refusal("stop", value, allowed)
    return texts


def _ids(value: Any) -> tuple[int, ...]:
    allowed = "token ids (whole numbers >= 0)"
    if value is None:
        return ()
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise _refusal("stop_token_ids", value, allowed)
    ids = tuple(value)
    if any(isinstance(token, bool) or not isinstance(token, int) or token < 0 for token in ids):
        raise _refusal("stop_token_ids", value, allowed)
    return ids
