"""Does a drafter leave every token as it is, on prompts of the own suite?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from outrider.bench.audit.check import Check
from outrider.bench.suites import OWN
from outrider.engine.result import Result
from outrider.errors import counted
from outrider.loop.accept.table import can_sample
from outrider.models.base import Batch
from outrider.sampling.params import SamplingParams
from outrider.types import Guarantee

if TYPE_CHECKING:
    from outrider.llm import LLM

PROMPT_IDS = ("edit-2", "code-1", "qa-1", "rag-1")
TEMPERATURE = 0.8
"""Of the seeded comparison, where the parameters ask for temperature 0."""


def identity_checks(llm: LLM, params: SamplingParams) -> Iterator[Check]:
    """Compare a drafter's tokens with plain decoding's under the same options, greedy and seeded; logprobs,
    too, where they are asked for.
    """
    greedy = replace(params, temperature=0.0, seed=7)
    seeded = replace(greedy, temperature=params.temperature or TEMPERATURE)
    yield _identity(llm, greedy, "same tokens, greedy")
    if can_sample(llm.rule_name):
        yield _identity(llm, seeded, f"same tokens, seeded, temperature {seeded.temperature}")


def _identity(llm: LLM, params: SamplingParams, name: str) -> Check:
    plain = llm.using(drafter="none")
    chat = llm.model.tokenizer.has_chat_template
    differences = []
    total = 0
    prompts = {prompt.id: prompt.turns[0] for prompt in OWN.read().prompts if prompt.id in PROMPT_IDS}
    for key, text in prompts.items():
        prompt = llm.encode(text, chat=chat)
        expected, found = (one.generate(prompt, params) for one in (plain, llm))
        assert isinstance(expected, Result)
        assert isinstance(found, Result)
        guarantee = found.speculation.guarantee
        if params.temperature > 0 and guarantee is not Guarantee.SAME_TOKENS:
            promise = "the law, not the tokens" if guarantee is Guarantee.SAME_LAW else "nothing"
            return Check(name, True, f"not looked at: rule {found.speculation.rule} promises {promise}")
        total += expected.completion_tokens
        difference = first_difference(llm, prompt, expected, found)
        differences += [f"prompt {key}, {difference}"] if difference else []
    equal = f"{counted(total, 'token')} of {counted(len(prompts), 'prompt')} equal"
    return Check(name, not differences, differences[0] if differences else equal)


def first_difference(llm: LLM, prompt: list[int], expected: Result, found: Result) -> str | None:
    """Say where two results part, with how far apart the target's logits are where tokens do; None where they
    don't part.
    """
    for index, (plain, drafted) in enumerate(zip(expected.token_ids, found.token_ids, strict=False)):
        if plain != drafted:
            decode = llm.model.tokenizer.decode
            texts = [repr(decode([token], skip_special=False)) for token in (plain, drafted)]
            gap = _logit_gap(llm, [*prompt, *expected.token_ids[:index]], plain, drafted)
            return (
                f"token {index}: plain {plain} {texts[0]}, with drafts {drafted} {texts[1]}; "
                f"their logits are {gap:.2e} apart"
            )
    if expected.completion_tokens != found.completion_tokens:
        ended = counted(expected.completion_tokens, "token")
        return f"plain ended after {ended}, with drafts after {found.completion_tokens}"
    if expected.finish_reason != found.finish_reason:
        return f"plain ended by {expected.finish_reason!r}, with drafts by {found.finish_reason!r}"
    if expected.logprobs != found.logprobs or expected.prompt_logprobs != found.prompt_logprobs:
        return "the tokens are equal, their logprobs are not"
    return None


def _logit_gap(llm: LLM, text: list[int], first: int, second: int) -> float:
    target = llm.model.target
    rows = range(len(text))
    parents = tuple(row - 1 for row in rows)
    batch = Batch(tuple(text), tuple(rows), (0,) * len(text), parents, (len(text) - 1,))
    logits = target.forward(batch, [target.new_cache()])[0]
    return float((logits[first] - logits[second]).abs())
