"""What a value of a sampling option must be: each check returns the value in its kept form or refuses it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from outrider.errors import OptionError


def refusal(option: str, value: object, allowed: str) -> OptionError:
    """Return the error that names the option, the value and what is allowed instead."""
    return OptionError(f"{option}={value!r} is not allowed; give {allowed}")


def number(option: str, value: Any, allowed: str, fits: Callable[[float], bool]) -> None:
    """Refuse what is no finite number or does not fit."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refusal(option, value, allowed)
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number beyond the floats
        finite = False
    if not finite or not fits(value):
        raise refusal(option, value, allowed)


def whole(option: str, value: Any, allowed: str, low: int, high: int | None = None) -> None:
    """Refuse what is no whole number from `low` to `high` (None: without an upper end)."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise refusal(option, value, allowed)
    if value < low or (high is not None and value > high):
        raise refusal(option, value, allowed)


def switch(option: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise refusal(option, value, "True or False")


def texts(option: str, value: Any) -> tuple[str, ...]:
    """Return one non-empty string or several as a tuple; None is none."""
    allowed = "a non-empty string or several of them"
    if value is None:
        return ()
    several = (value,) if isinstance(value, str) else value
    if not isinstance(several, Iterable) or isinstance(several, bytes):
        raise refusal(option, value, allowed)
    several = tuple(several)
    if not all(isinstance(text, str) and text for text in several):
        raise refusal(option, value, allowed)
    return several


def ids(option: str, value: Any) -> tuple[int, ...]:
    """Return token ids as a tuple; None is none. Whether they lie in the vocabulary is not known here."""
    allowed = "token ids (whole numbers >= 0)"
    if value is None:
        return ()
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise refusal(option, value, allowed)
    several = tuple(value)
    if any(isinstance(token, bool) or not isinstance(token, int) or token < 0 for token in several):
        raise refusal(option, value, allowed)
    return several


def biases(option: str, value: Any) -> tuple[tuple[int, float], ...]:
    """Return a mapping of token ids to numbers (or its pairs) as pairs in order of id; None is none."""
    allowed = "finite numbers by token id, as in {id: number}; to forbid a token use banned_tokens"
    if value is None:
        return ()
    try:
        pairs = [(token, bias) for token, bias in (value.items() if isinstance(value, Mapping) else value)]
    except (TypeError, ValueError):
        raise refusal(option, value, allowed) from None
    for token, bias in pairs:
        if isinstance(token, bool) or not isinstance(token, int) or token < 0:
            raise refusal(option, value, allowed)
        try:
            number(option, bias, allowed, lambda _: True)
        except OptionError:
            raise refusal(option, value, allowed) from None
    if len({token for token, _ in pairs}) < len(pairs):
        raise refusal(option, value, "each token id once")
    return tuple(sorted((token, float(bias)) for token, bias in pairs))


def schema(option: str, value: Any) -> str | None:
    """Return a JSON schema, a mapping or its text, as text; None is none."""
    allowed = "a JSON schema: a dict, or its JSON text"
    if value is None:
        return None
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
        if not isinstance(parsed, Mapping):
            raise refusal(option, value, allowed)
        return json.dumps(dict(parsed))
    except (TypeError, ValueError) as error:
        raise OptionError(f"{option} is no JSON ({error}); give {allowed}") from None


def functions(option: str, value: Any) -> tuple[Callable[..., Any], ...]:
    """Return one function or several as a tuple; None is none."""
    if value is None:
        return ()
    several = (value,) if callable(value) else value
    if not isinstance(several, Iterable) or isinstance(several, str | bytes):
        raise refusal(option, value, "functions of (prefix_tokens, logits)")
    several = tuple(several)
    if not all(callable(function) for function in several):
        raise refusal(option, value, "functions of (prefix_tokens, logits)")
    return several
