"""What a request's options do to the logits of a row, given the text before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import torch
from torch import Tensor

from outrider.errors import DeadEndError, OptionError, counted
from outrider.sampling import processors
from outrider.sampling.constraint import Constraint
from outrider.sampling.history import NGrams, Tally
from outrider.sampling.params import LogitsProcessor, SamplingParams

Step = Callable[[Tensor, Sequence[int]], Tensor | None]
"""Changes a row [V] in place or returns another, for a path of drafted tokens after the committed text."""


class Processing:
    """The options of one sequence that act on logits, in the order that `outrider.sampling.law` documents.

    `tokens` is the sequence's own list of committed tokens, of which the first `prompt_length` are the
    prompt; what it has grown by is taken in when a row is next asked for. `end_tokens` cannot be drawn before
    `min_tokens`; `banned_sequences` are the banned words as tokens. Options that are off have no step and
    cost nothing; `processing_of` returns None where all are.
    """

    def __init__(
        self,
        params: SamplingParams,
        tokens: Sequence[int],
        prompt_length: int,
        *,
        end_tokens: Iterable[int] = (),
        banned_sequences: Sequence[Sequence[int]] = (),
        constraint: Constraint | None = None,
    ) -> None:
        self._params, self._tokens, self._prompt_length = params, tokens, prompt_length
        self._end_tokens = sorted(set(end_tokens))
        self._sequences = [tuple(sequence) for sequence in banned_sequences]
        self._longest = max(map(len, self._sequences), default=1)
        self._constraint, self._constrained = constraint, prompt_length
        bias = dict(params.logit_bias)
        self._bias_ids = torch.tensor(list(bias), dtype=torch.int64)
        self._bias = torch.tensor(list(bias.values()), dtype=torch.float32)
        self._allowed = torch.tensor(sorted(set(params.allowed_tokens or ())), dtype=torch.int64)
        self._all = Tally(tokens)
        self._output = Tally(tokens, prompt_length)
        self._ngrams = NGrams(tokens, max(params.no_repeat_ngram_size, 1))
        moving: list[tuple[str, bool, Step]] = [
            ("logit_bias", bool(bias), self._add_bias),
            ("repetition_penalty", params.repetition_penalty != 1, self._penalise_repetition),
            (
                "presence_penalty and frequency_penalty",
                params.presence_penalty != 0 or params.frequency_penalty != 0,
                self._penalise_counts,
            ),
        ]
        excluding: list[tuple[str, bool, Step]] = [
            ("logits_processors", bool(params.logits_processors), self._run_functions),
            ("allowed_tokens", params.allowed_tokens is not None, self._keep_allowed),
            ("banned_tokens", bool(params.banned_tokens), self._ban_tokens),
            ("banned_words", bool(self._sequences), self._ban_words),
            ("no_repeat_ngram_size", params.no_repeat_ngram_size > 0, self._ban_ngrams),
            ("min_tokens", params.min_tokens > 0 and bool(self._end_tokens), self._ban_ends),
            (constraint.name if constraint else "", constraint is not None, self._constrain),
        ]
        self._steps = [step for _, on, step in [*moving, *excluding] if on]
        self._excluding = [name for name, on, _ in excluding if on]

    def __bool__(self) -> bool:
        """True where any option is on."""
        return bool(self._steps)

    def row(self, logits: Tensor, path: Sequence[int]) -> Tensor:
        """Return the logits [V] float32 of the token after the committed text and `path`, in memory of its
        own.

        DeadEndError where the options leave no token; OptionError where a user's function gives no logits.
        """
        row = logits.to(torch.float32, copy=True)
        for step in self._steps:
            changed = step(row, path)
            row = row if changed is None else changed
        if row.amax().item() == -torch.inf:
            raise DeadEndError(
                f"after {counted(self._emitted(path), 'token')} no token is left that may follow: "
                f"{', '.join(self._excluding)} exclude all of them; loosen one of these options"
            )
        return row

    @property
    def constrained(self) -> bool:
        """True where there is a constraint."""
        return self._constraint is not None

    def accepts(self, path: Sequence[int]) -> int:
        """Return how many tokens of a drafted path, from its first, the constraint allows."""
        if self._constraint is None:
            return len(path)
        with suppress(OptionError):  # raised again where the text comes there
            self._catch_up()
            return self._constraint.accepts(path)
        return 0

    def is_over(self, path: Sequence[int]) -> bool:
        """Tell whether the constraint ends the text after a drafted path: nothing may follow but its end."""
        if self._constraint is None or not path or self._emitted(path) < self._params.min_tokens:
            return False
        with suppress(OptionError):
            self._catch_up()
            return self._constraint.is_over(path)
        return False

    def forced(self, limit: int) -> list[int]:
        """Return at most `limit` tokens that the constraint leaves little choice about, as guesses."""
        if self._constraint is None:
            return []
        with suppress(OptionError):
            self._catch_up()
            return self._constraint.forced(limit)
        return []

    def _emitted(self, path: Sequence[int]) -> int:
        return len(self._tokens) - self._prompt_length + len(path)

    def _tail(self, path: Sequence[int], length: int) -> list[int]:
        """Return the last `length` tokens of the output with the path, fewer where there are fewer."""
        output = self._tokens[max(self._prompt_length, len(self._tokens) - length) :]
        tail = [*output, *path]
        return tail[max(0, len(tail) - length) :]

    def _add_bias(self, row: Tensor, path: Sequence[int]) -> None:
        processors.add_bias(row, self._bias_ids.to(row.device), self._bias.to(row.device))

    def _penalise_repetition(self, row: Tensor, path: Sequence[int]) -> None:
        ids, _ = self._all.after(path)
        processors.penalise_repetition(row, ids.to(row.device), self._params.repetition_penalty)

    def _penalise_counts(self, row: Tensor, path: Sequence[int]) -> None:
        ids, counts = (part.to(row.device) for part in self._output.after(path))
        frequency, presence = self._params.frequency_penalty, self._params.presence_penalty
        processors.penalise_counts(row, ids, counts, frequency, presence)

    def _run_functions(self, row: Tensor, path: Sequence[int]) -> Tensor:
        for function in self._params.logits_processors:
            row = run_function(function, [*self._tokens, *path], row)
        return row

    def _keep_allowed(self, row: Tensor, path: Sequence[int]) -> None:
        processors.keep_only(row, self._allowed.to(row.device))

    def _ban_tokens(self, row: Tensor, path: Sequence[int]) -> None:
        processors.ban(row, self._params.banned_tokens)

    def _ban_words(self, row: Tensor, path: Sequence[int]) -> None:
        processors.ban(row, processors.completing(self._sequences, self._tail(path, self._longest - 1)))

    def _ban_ngrams(self, row: Tensor, path: Sequence[int]) -> None:
        processors.ban(row, self._ngrams.repeating(path))

    def _ban_ends(self, row: Tensor, path: Sequence[int]) -> None:
        if self._emitted(path) < self._params.min_tokens:
            processors.ban(row, self._end_tokens)

    def _constrain(self, row: Tensor, path: Sequence[int]) -> None:
        assert self._constraint is not None
        if self.is_over(path):
            return  # never emitted, but a rule may ask for it
        self._catch_up()
        mask = self._constraint.mask(path, len(row))
        if mask is not None:
            row.masked_fill_(~mask.to(row.device), -torch.inf)

    def _catch_up(self) -> None:
        """Tell the constraint what was committed since it was last asked."""
        assert self._constraint is not None
        fresh = self._tokens[self._constrained :]
        if fresh:
            self._constraint.commit(fresh)
            self._constrained += len(fresh)


def processing_of(
    params: SamplingParams,
    tokens: Sequence[int],
    prompt_length: int,
    *,
    end_tokens: Iterable[int] = (),
    banned_sequences: Sequence[Sequence[int]] = (),
    constraint: Constraint | None = None,
) -> Processing | None:
    """Return the processing of a sequence, None where no option acts on its logits."""
    made = Processing(
        params,
        tokens,
        prompt_length,
        end_tokens=end_tokens,
        banned_sequences=banned_sequences,
        constraint=constraint,
    )
    return made or None


def run_function(function: LogitsProcessor, prefix: list[int], row: Tensor) -> Tensor:
    """Return what a user's function makes of a row, float32 [V].

    OptionError where it fails, gives no tensor of that shape, or one with NaN or +inf in it.
    """
    name = getattr(function, "__name__", type(function).__name__)
    try:
        given = function(prefix, row)
    except Exception as error:
        raise OptionError(
            f"the logits processor {name!r} failed: {type(error).__name__}: {error}; mend or leave it out"
        ) from error
    if not isinstance(given, Tensor) or given.shape != row.shape:
        shape = f"a tensor of shape {list(given.shape)}" if isinstance(given, Tensor) else repr(given)
        raise OptionError(
            f"the logits processor {name!r} gave {shape}; it must return logits of shape [{len(row)}]"
        )
    made = given.to(row)
    peak = made.amax().item()
    if not peak < torch.inf:
        raise OptionError(
            f"the logits processor {name!r} gave logits with {peak} as their maximum; they must be numbers "
            "(-inf excludes a token)"
        )
    return made
