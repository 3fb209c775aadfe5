"""The settings of options under which every drafter and every rule is tested, and how to make each drafter.

An option is tested by being listed here. Settings hold for a vocabulary of 8 tokens and for one of 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch

from conftest import RandomTrees, toy_model
from outrider.bench.audit.toy_heads import toy_head, toy_medusa
from outrider.loop.draft.base import Drafter
from outrider.models.toy import ToyTarget
from outrider.registry import DRAFTERS, RULES
from outrider.types import Guarantee

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "lm, width 3": ("lm", {"width": 3}),
    "lm, tree 3,2,1": ("lm", {"tree": "3,2,1"}),
    "layerskip, width 3": ("layerskip", {"skip": "0-1", "width": 3}),
    "layerskip, tree 3,2,1": ("layerskip", {"skip": "1", "tree": "3,2,1"}),
    "eagle, tree 3,2,1": ("eagle", {"tree": "3,2,1"}),
    "eagle, its likeliest": ("eagle", {"sample": False}),
    "medusa, tree 3,2,1": ("medusa", {"tree": "3,2,1"}),
}
NEEDED: dict[str, dict[str, Any]] = {"layerskip": {"skip": "1"}}
"""Options without which a drafter cannot be made for a model that has no texts."""
WITH_MODEL = {
    "merged with lm": ("merged", "lm"),
    "auto with lm": ("auto", "lm"),
    "merged with eagle": ("merged", "eagle"),
    "auto with eagle": ("auto", "eagle"),
    "merged with medusa": ("merged", "medusa"),
}
ALL_DRAFTERS = [*DRAFTERS, *VARIANTS, *WITH_MODEL, "random trees"]
EOS = (3,)
"""The end token of the models that settings are tested with."""


def by_prefix(prefix: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
    """A user's function whose answer depends on the whole prefix."""
    moved = logits.clone()
    moved[sum(prefix) % len(logits)] += 1.5
    moved[len(prefix) % len(logits)] -= 1.0
    return moved


LARK = 'start: ("a" pair)+ "c"?\npair: "bb" | "cb" | "ba"'
GRAMMARS = {LARK: "(a(bb|cb|ba))+c?"}
"""Grammars and the same as regular expressions."""

FILTERS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"temperature": 1.0},
    "hot": {"temperature": 1.7},
    "top-k": {"temperature": 0.9, "top_k": 3},
    "top-p": {"temperature": 0.9, "top_p": 0.7},
    "min-p": {"temperature": 1.2, "min_p": 0.2},
    "typical-p": {"temperature": 1.2, "typical_p": 0.6},
    "all filters": {"temperature": 0.8, "top_k": 5, "top_p": 0.9, "min_p": 0.05, "typical_p": 0.9},
}

PREFIXED: dict[str, dict[str, Any]] = {
    "repetition penalty": {"temperature": 1.0, "repetition_penalty": 1.8},
    "repetition reward, greedy": {"repetition_penalty": 0.6},
    "presence penalty": {"temperature": 1.0, "presence_penalty": 1.1},
    "frequency penalty": {"temperature": 1.0, "frequency_penalty": 0.4},
    "frequency penalty, greedy": {"frequency_penalty": 0.3},
    "frequency reward": {"temperature": 1.0, "frequency_penalty": -0.2},
    "no repeated 4-grams": {"temperature": 1.0, "no_repeat_ngram_size": 4},
    "no repeated pairs": {"temperature": 1.3, "no_repeat_ngram_size": 2, "max_tokens": 20},
    "no repeated 3-grams, greedy": {"no_repeat_ngram_size": 3},
    "logit bias": {"temperature": 1.0, "logit_bias": {0: 1.5, 2: -2.0}},
    "logit bias, greedy": {"logit_bias": {0: 1.5, 2: -2.0}},
    "allowed tokens": {"temperature": 1.0, "allowed_tokens": (0, 2, 3)},
    "banned tokens": {"temperature": 1.0, "banned_tokens": (1,)},
    "banned words": {"temperature": 1.2, "banned_words": ("ef", "ga", "egb", "d")},
    "banned words, greedy": {"banned_words": ("fff", "fc", "ac")},
    "min tokens": {"temperature": 1.0, "min_tokens": 9, "ignore_eos": False},
    "min tokens, greedy": {"min_tokens": 9, "stop_token_ids": (0,), "ignore_eos": False},
    "own function": {"temperature": 1.0, "logits_processors": by_prefix},
    "own functions, greedy": {"logits_processors": (by_prefix, by_prefix)},
    "regex": {"temperature": 1.0, "regex": "(ab|ba|c[abd])+"},
    "regex, greedy": {"regex": "(ab|ba|c[abd])+"},
    "regex with an end": {
        "temperature": 1.0,
        "regex": "(b|cb)*c?",
        "min_tokens": 3,
        "stop_token_ids": (0,),
        "ignore_eos": False,
    },
    "choice": {"temperature": 1.0, "choice": ("abca", "abcb", "caab", "ca")},
    "choice with an end, greedy": {"choice": ("abca", "a", "abcb", "cabb"), "ignore_eos": False},
    "grammar": {"temperature": 1.0, "grammar": LARK, "ignore_eos": False, "repetition_penalty": 1.1},
    "penalties and filters": {
        "temperature": 0.9,
        "repetition_penalty": 1.3,
        "presence_penalty": 0.4,
        "frequency_penalty": 0.2,
        "top_k": 6,
        "top_p": 0.9,
    },
    "everything": {
        "temperature": 1.1,
        "logit_bias": {1: 0.7},
        "repetition_penalty": 1.2,
        "presence_penalty": 0.3,
        "frequency_penalty": 0.1,
        "logits_processors": by_prefix,
        "banned_words": ("ef", "ga"),
        "no_repeat_ngram_size": 5,
        "min_tokens": 5,
        "ignore_eos": False,
        "top_p": 0.95,
        "min_p": 0.02,
        "typical_p": 0.97,
    },
}

SAMPLINGS = {**FILTERS, **PREFIXED}


FEWER: dict[str, Any] = {"min_tokens": 1, "banned_words": ("ab", "caa", "bca"), "no_repeat_ngram_size": 3}
SMALL: dict[str, dict[str, Any]] = {
    name: {**options, **{key: value for key, value in FEWER.items() if key in options}}
    for name, options in SAMPLINGS.items()
    if options.get("temperature") and "allowed_tokens" not in options
}
SMALL["allowed tokens"] = {"temperature": 1.0, "allowed_tokens": (0, 2)}
SMALL["top-k"] = {"temperature": 0.9, "top_k": 2}


LAW_CASES = [
    *(("lm", sampling, 2) for sampling in SMALL),
    *(("lm", sampling, 3) for sampling in ("sampled", "all filters", "frequency penalty", "own function")),
    *(("lm", sampling, 3) for sampling in ("repetition penalty", "no repeated 4-grams", "everything")),
    *(("lm", sampling, 4) for sampling in ("choice", "grammar", "regex with an end")),
    *((drafter, "choice", 4) for drafter in ("suffix", "lm, tree 3,2,1", "lm, width 3", "merged with lm")),
    *((drafter, "grammar", 4) for drafter in ("suffix", "lm, tree 3,2,1", "merged with lm", "auto with lm")),
    *((drafter, "regex with an end", 4) for drafter in ("lm, tree 3,2,1", "lm, width 3")),
    *(("layerskip", sampling, 4) for sampling in ("all filters", "repetition penalty", "choice", "grammar")),
    *((drafter, "sampled", 3) for drafter in ALL_DRAFTERS if drafter != "lm"),
    *(("suffix", sampling, 3) for sampling in ("penalties and filters", "own function", "everything")),
]
"""Drafter, setting and length of the texts whose law is enumerated, under every rule of the same law."""

KEEPING_TOKENS = [name for name in RULES if RULES.load(name).guarantee is Guarantee.SAME_TOKENS]
KEEPING_LAWS = [name for name in RULES if RULES.load(name).guarantee is Guarantee.SAME_LAW]


def make_drafter(
    name: str, target: ToyTarget, share: Fraction = Fraction(2, 3), model: ToyTarget | None = None
) -> Drafter:
    """Build a drafter; one that takes a model gets `model`, or one whose laws are `share` of the target's."""
    if name == "random trees":
        return RandomTrees(3, vocab=target.vocab_size)

    def drafting(kind: Any) -> Any:
        if getattr(kind, "takes_head", False):
            return toy_medusa(target) if kind is DRAFTERS.load("medusa") else toy_head(target)
        return toy_model(model or ToyTarget(target.vocab_size, seed=9, like=target, share=share))

    if name in WITH_MODEL:
        several, part = WITH_MODEL[name]
        made: Drafter = DRAFTERS.load(several).merge(
            target, drafting(DRAFTERS.load(part)), ("suffix", "recycle", part), {}
        )
        return made
    name, options = VARIANTS.get(name, (name, NEEDED.get(name, {})))
    kind = DRAFTERS.load(name)
    drafter: Drafter = kind.build(target, drafting(kind) if kind.takes_model else None, dict(options))
    return drafter
