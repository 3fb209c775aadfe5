"""Plain decoding under every option, written slowly from the definitions: no loop, no cache, no counts
kept."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch

from matrix import GRAMMARS
from outrider.models.toy import ToyTarget, ToyTokenizer
from outrider.sampling.keyed import SharedDraws
from outrider.sampling.law import law
from outrider.sampling.params import SamplingParams

REACH = 3
"""How many letters a text that a pattern of these tests can still accept needs at most."""


@cache
def fits(params: SamplingParams, text: str, letters: str) -> tuple[bool, bool]:
    """Tell whether a text is of the language asked for, and whether it is the beginning of a longer one.

    By trying all of the next letters. A grammar in words stands for the regular expression `GRAMMARS` says.
    """
    pattern = params.regex or GRAMMARS.get(params.grammar or "") or "|".join(map(re.escape, params.choice))

    def matches(longer: str) -> bool:
        return re.fullmatch(pattern, longer) is not None

    endings = (
        "".join(end) for count in range(1, REACH + 1) for end in itertools.product(letters, repeat=count)
    )
    return matches(text), any(matches(text + end) for end in endings)


def ended(params: SamplingParams, output: Sequence[int], ends: Iterable[int], vocab_size: int) -> bool:
    """Tell whether an output that is not empty is over: by its end token, or since nothing may follow."""
    if output[-1] in ends or params.output_grammar is None:
        return output[-1] in ends
    letters = "".join(chr(97 + token) for token in range(vocab_size) if token not in ends)
    whole, begins = fits(params, "".join(chr(97 + token) for token in output), letters)
    return whole and not begins and len(output) >= params.min_tokens


def reference_row(
    logits: Sequence[float],
    params: SamplingParams,
    prompt: Sequence[int],
    output: Sequence[int],
    ends: Iterable[int] = (),
    words: Iterable[Sequence[int]] = (),
) -> list[float]:
    """Return the logits after every option that acts before the temperature; `words` are banned ones."""
    row = [x + dict(params.logit_bias).get(token, 0.0) for token, x in enumerate(logits)]
    text = [*prompt, *output]
    written = "".join(chr(97 + token) for token in output)
    letters = "".join(chr(97 + token) for token in range(len(row)) if token not in ends)
    for token in range(len(row)):
        if token in text:
            penalty = params.repetition_penalty
            row[token] = row[token] / penalty if row[token] > 0 else row[token] * penalty
        row[token] -= params.frequency_penalty * output.count(token)
        row[token] -= params.presence_penalty * (token in output)
    for function in params.logits_processors:
        row = function(text, torch.tensor(row)).tolist()
    for token in range(len(row)):
        after = [*text, token]
        n = params.no_repeat_ngram_size
        grams = [tuple(after[i : i + n]) for i in range(len(after) - n + 1)] if n else []
        impossible = (
            (params.allowed_tokens is not None and token not in params.allowed_tokens)
            or token in params.banned_tokens
            or any([*output, token][-len(word) :] == list(word) for word in words)
            or (n and grams[:-1].count(grams[-1]) if grams else False)
            or (token in ends and len(output) < params.min_tokens)
            or (params.output_grammar and not _follows(params, written, token, letters))
        )
        if impossible:
            row[token] = -math.inf
    return row


def _follows(params: SamplingParams, written: str, token: int, letters: str) -> bool:
    """Tell whether a token, a letter or an end, may follow what was written."""
    letter = chr(97 + token)
    return (
        any(fits(params, written + letter, letters))
        if letter in letters
        else fits(params, written, letters)[0]
    )


def reference_law(
    target: ToyTarget,
    params: SamplingParams,
    prompt: Sequence[int],
    output: Sequence[int],
    eos: Iterable[int],
) -> torch.Tensor:
    """Return the law of the token after prompt and output, [V]."""
    logits = [math.log(p) if p else -math.inf for p in target.law([*prompt, *output])]
    ends = {*params.stop_token_ids, *(() if params.ignore_eos else eos)}
    encode = ToyTokenizer(target.vocab_size).encode
    words = [encode(word) for word in params.banned_words]
    return law(torch.tensor(reference_row(logits, params, prompt, list(output), ends, words)), params)


def reference_tokens(
    target: ToyTarget, prompt: Sequence[int], params: SamplingParams, eos: Iterable[int] = ()
) -> list[int]:
    """Return what plain decoding emits, up to an end token or `max_tokens` (stop strings are not looked
    for)."""
    output: list[int] = []
    ends = {*params.stop_token_ids, *(() if params.ignore_eos else eos)}
    while len(output) < (params.max_tokens or 0):
        p = reference_law(target, params, prompt, output, eos)
        draws = SharedDraws(params.seed or 0, 0, len(prompt) + len(output))
        output.append(int(p.argmax()) if params.temperature == 0 else draws.token(p, 0))
        if ended(params, output, ends, target.vocab_size):
            break
    return output


def settings(**options: Any) -> SamplingParams:
    return SamplingParams(**{"seed": 11, "max_tokens": 40, **options})
