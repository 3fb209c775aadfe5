"""The options at hand, put to three letters (a, b and the end token c) and texts of three tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from outrider.sampling.params import SamplingParams

VOCAB = 3
LENGTH = 3
"""Tokens whose joint law is compared."""
BANNED_WORDS = ("ab", "ca", "bb")
STOPS = ("ba", "aab", "bb")
PATTERN = "(a|bb)+b?"
GRAMMARS: dict[str, Any] = {
    "json_schema": {"regex": PATTERN},
    "json_object": {"regex": PATTERN},
    "regex": {"regex": PATTERN},
    "grammar": {"grammar": 'start: ("a" | "bb")+ "b"?'},
    "choice": {"choice": ("aab", "ab", "bba")},
}
"""What stands for a grammar of the real vocabulary, by its option."""


def on_small(params: SamplingParams, *, sampled: bool) -> SamplingParams:
    """Return the parameters as they are put to the small models, at temperature 1 for 0 where `sampled`.

    Numbers are kept, but for `top_k` and `min_tokens`, which are at most 2. What names tokens or texts of the
    real vocabulary has a stand-in that names as many of these letters, up to three; every kind of grammar has
    one that the letters can write. What adds to the result only (logprobs) is left out.
    """
    grammar = params.output_grammar
    stand_in: dict[str, Any] = {} if grammar is None else GRAMMARS[grammar[0]]
    return replace(
        params,
        temperature=params.temperature or (1.0 if sampled else 0.0),
        max_tokens=LENGTH,
        min_tokens=min(params.min_tokens, 2),
        top_k=min(params.top_k, 2),
        logit_bias=dict(enumerate(bias for _, bias in params.logit_bias[:VOCAB])),  # type: ignore[index, union-attr]
        allowed_tokens=None if params.allowed_tokens is None else (0, 2),
        banned_tokens=(1,) if params.banned_tokens else (),
        banned_words=BANNED_WORDS[: len(params.banned_words)],
        stop=STOPS[: len(params.stop)],
        stop_token_ids=(1,) if params.stop_token_ids else (),
        **{"json_schema": None, "json_object": False, "regex": None, "grammar": None, "choice": None}
        | stand_in,
        n=1,
        best_of=None,
        logprobs=None,
        prompt_logprobs=None,
    )
