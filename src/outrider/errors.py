"""Every error a user can meet.

OutriderError
├── UsageError            the request itself is wrong (exit code 2)
│   ├── UnknownNameError  no such drafter, rule, family, suite …; names the near ones
│   ├── OptionError       an option is outside its range, or two of them contradict
│   │   └── DeadEndError  the options leave no token that may follow
│   ├── PromptError       empty prompt, or longer than the context
│   └── CapabilityError   these parts cannot work together (rule, drafter, model)
├── LoadError             weights, config or tokenizer cannot be read (exit code 1)
│   ├── UnsupportedModelError  an architecture or format that outrider does not run
│   ├── VocabularyError   draft and target do not speak the same tokens
│   └── HeadError         a drafting head that is damaged, contradicts itself or fits another target
├── OverloadedError       too many requests wait already; try again later (exit code 1)
├── NumericsError         the model produced NaN or infinite logits (exit code 1)
└── TrainingError         a training run cannot go on; what it has saved stands (exit code 1)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class OutriderError(Exception):
    """Base of all errors of this package; the message says what is wrong and what to do."""

    exit_code = 1


class UsageError(OutriderError):
    """The request is wrong; nothing was run."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name that stands in no table."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = near_names(str(name), known)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        super().__init__(f"unknown {kind} {name!r}; {hint}known: {', '.join(known)}")


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: "1 token", "2 tokens"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def near_names(name: str, known: Iterable[str], least: float = 0.5) -> list[str]:
    """Return the known names most like a name, the nearest first; case and joining signs don't count."""

    def plain(text: str) -> str:
        return text.casefold().translate({ord(sign): None for sign in "-_. "})

    by_plain: dict[str, list[str]] = {}
    for other in known:
        by_plain.setdefault(plain(other), []).append(other)
    near = difflib.get_close_matches(plain(name), by_plain, n=3, cutoff=least)
    return [other for match in near for other in by_plain[match]]


class OptionError(UsageError):
    """An option outside its range, or two that contradict each other."""


class DeadEndError(OptionError):
    """The options together leave no token that may follow; found while the request runs."""


class PromptError(UsageError):
    """A prompt that cannot be run."""


class CapabilityError(UsageError):
    """Parts that cannot work together."""


class OverloadedError(OutriderError):
    """The queue is full; `retry_after` says in how many seconds there may be room, None if nobody knows."""

    def __init__(self, waiting: int, seconds_a_request: float | None) -> None:
        self.retry_after = seconds_a_request
        hint = "later" if self.retry_after is None else f"in about {max(1, round(self.retry_after))} s"
        super().__init__(f"{waiting} requests wait already, and the queue takes no more; try again {hint}")


class LoadError(OutriderError):
    """Weights, config or tokenizer cannot be read."""


class UnsupportedModelError(LoadError):
    """An architecture or file format that outrider does not run."""


class VocabularyError(LoadError):
    """Draft and target do not speak the same tokens."""


class HeadError(LoadError):
    """A drafting head that is damaged, contradicts itself or was made for another target."""


class NumericsError(OutriderError):
    """The model produced logits that are not numbers."""


class TrainingError(OutriderError):
    """A training run cannot go on: numbers that are none, a disk that is full. What it has saved stands."""
