"""Rules, laws and keyed noise together, on logits in float32: the joint law of several steps."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
import torch

from frequencies import follows
from outrider.loop.accept.coupled import Coupled
from outrider.loop.accept.rejection import Rejection
from outrider.models.toy import ToyTarget
from outrider.sampling.keyed import KeyedSource
from outrider.sampling.law import LogitLaws, law
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree, Scored

PARAMS = SamplingParams(temperature=1.0)
PROMPT = (0, 1)
TARGET = ToyTarget(3, order=2, seed=5, zeros=0.2)
DRAFTER = ToyTarget(3, order=1, seed=6, zeros=0.2, like=TARGET, share=Fraction(1, 3))


def logits(model: ToyTarget, text: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor([float(p) for p in model.law(text)]).log()


def speculate(rule: Any, seed: int, horizon: int, *, with_law: bool) -> tuple[int, ...]:
    text = PROMPT
    while len(text) < len(PROMPT) + horizon:
        drafting = KeyedSource(seed, 0).for_draft(rule, len(text))
        tokens: list[int] = []
        laws = []
        for depth in range(2):
            q = law(logits(DRAFTER, (*text, *tokens)), PARAMS)
            laws.append(q)
            tokens.append(drafting.token(q, depth) if with_law else int(q.argmax()))
        tree = DraftTree.chain(tokens, laws if with_law else None)
        rows = torch.stack([logits(TARGET, (*text, *tokens[:depth])) for depth in range(3)])
        deciding = KeyedSource(seed, 0).for_rule(rule, len(text))
        verdict = rule.decide(Scored(tree, LogitLaws(rows, PARAMS)), deciding)
        text = (*text, *(tree.tokens[node] for node in verdict.path), verdict.token)
    return text[len(PROMPT) : len(PROMPT) + horizon]


@pytest.mark.parametrize("with_law", [True, False], ids=["sampled", "guessed"])
@pytest.mark.parametrize("rule", [Rejection(), Coupled()], ids=["rejection", "coupled"])
def test_the_joint_law_of_sampled_text_is_the_targets(rule: Any, with_law: bool) -> None:
    horizon, runs = 3, 1500
    expected = {}
    for text in itertools.product(range(3), repeat=horizon):
        weight = Fraction(1)
        for depth, token in enumerate(text):
            weight *= TARGET.law((*PROMPT, *text[:depth]))[token]
        expected[text] = weight
    assert sum(expected.values()) == 1
    seen = Counter(speculate(rule, seed, horizon, with_law=with_law) for seed in range(runs))
    assert follows(seen, expected)
