"""Rank acceptance: what is counted is what a tree of that width would keep."""

from __future__ import annotations

import pytest

from conftest import VOCAB, plain_tokens, run, toy_model
from outrider.bench.ranks import rank_counts
from outrider.models.toy import ToyTarget
from outrider.registry import DRAFTERS
from outrider.sampling.params import SamplingParams

PROMPT = [0, 1, 2]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_model_equal_to_the_target_is_right_at_rank_0(temperature: float) -> None:
    target = ToyTarget(VOCAB, seed=1)
    params = SamplingParams(temperature=temperature, seed=5)
    answer = plain_tokens(target, PROMPT, params, 40)
    tried, right = rank_counts(target, VOCAB, PROMPT, answer, params, 3)
    assert right == [40, 0, 0]
    assert tried[0] == 40


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_counts_are_what_trees_of_one_level_keep(temperature: float) -> None:
    target = ToyTarget(VOCAB, seed=1)
    draft = ToyTarget(VOCAB, seed=9, like=target)
    params = SamplingParams(temperature=temperature, seed=5, max_tokens=60, ignore_eos=True)
    answer = plain_tokens(target, PROMPT, params, 60)
    _, right = rank_counts(draft, VOCAB, PROMPT, answer, params, 3)
    drafter = DRAFTERS.load("lm").build(target, toy_model(draft), {"tree": "3"})
    [result] = run(toy_model(target), drafter, [PROMPT], params, budget=3)
    assert list(result.token_ids) == answer
    assert 0 < right[0] < 60
    # A pass keeps one node where the tree holds the next token, so it drafts at every second such position.
    ranks = []
    for end in range(len(PROMPT), len(PROMPT) + 60):
        _, hit = rank_counts(
            draft, VOCAB, [*PROMPT, *answer][:end], answer[end - len(PROMPT) :][:1], params, 3
        )
        ranks.append(sum(hit))
    kept, position = 0, 0
    while position < 57:
        kept += ranks[position]
        position += 1 + ranks[position]
    assert abs(result.speculation.accepted - kept) <= 2
