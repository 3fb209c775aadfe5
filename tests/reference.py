"""Plain decoding under every option, written slowly from the definitions: no loop, no cache, no counts
kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from outrider.models.toy import ToyTarget, ToyTokenizer
from outrider.sampling.keyed import SharedDraws
from outrider.sampling.law import law
from outrider.sampling.params import SamplingParams


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
        )
        if impossible:
            row[token] = -math.inf
    return row


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
        if output[-1] in ends:
            break
    return output


def settings(**options: Any) -> SamplingParams:
    return SamplingParams(**{"seed": 11, "max_tokens": 40, **options})
