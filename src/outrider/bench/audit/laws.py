"""Does sampled text of the real model follow its laws? A test over many seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from outrider.bench.audit.check import Check
from outrider.bench.suites import OWN
from outrider.engine.grammar import grammar_of
from outrider.engine.options import banned_sequences
from outrider.engine.result import Result
from outrider.models.base import Batch
from outrider.sampling.law import LogitLaws
from outrider.sampling.noise import mix, uniform
from outrider.sampling.params import SamplingParams
from outrider.sampling.processing import processing_of
from outrider.types import Guarantee

if TYPE_CHECKING:
    from outrider.llm import LLM

PROMPT_IDS = ("edit-2", "qa-1")
TEMPERATURE = 1.0
"""Of the test, where the parameters ask for temperature 0."""
BINS = 20
LEVEL = 1e-6
"""A p-value below this fails: one false alarm in a million audits of a sound system, per prompt."""


def law_checks(llm: LLM, params: SamplingParams, *, seeds: int, length: int = 4) -> Iterator[Check]:
    """Test the law of the first `length` tokens of `seeds` seeded texts of each prompt.

    A token x drawn from a law p, its tokens in falling order of probability, gives the number
    F(x-) + v p(x), which is uniform on [0, 1] for v uniform (the randomised probability integral transform).
    Those of all tokens, each under the law that plain decoding has after the very tokens before it, are
    compared with uniform ones by a chi-square test over 20 bins. A token of probability zero fails at once.
    Stop texts are left out: they cut tokens for what they are, so those that stay have another law.
    """
    temperature = params.temperature or TEMPERATURE
    params = replace(
        params,
        temperature=temperature,
        max_tokens=length,
        min_tokens=0,
        ignore_eos=True,
        stop=(),
        logprobs=None,
        prompt_logprobs=None,
    )
    chat = llm.model.tokenizer.has_chat_template
    prompts = {prompt.id: prompt.turns[0] for prompt in OWN.read().prompts if prompt.id in PROMPT_IDS}
    for key, text in prompts.items():
        name = f"law of the first {length} tokens, prompt {key}, temperature {temperature}"
        yield _check(name, llm, llm.encode(text, chat=chat), params, seeds)


def _check(name: str, llm: LLM, prompt: list[int], params: SamplingParams, seeds: int) -> Check:
    counts = torch.zeros(BINS, dtype=torch.float64)
    accepted = drafted = 0
    laws = PrefixLaws(llm, prompt, params)
    for seed in range(seeds):
        result = llm.generate(prompt, params, seed=seed)
        assert isinstance(result, Result)
        if result.speculation.guarantee is Guarantee.LOSSY:
            return Check(name, True, f"not looked at: rule {result.speculation.rule} promises nothing")
        accepted, drafted = accepted + result.speculation.accepted, drafted + result.speculation.drafted
        for index, token in enumerate(result.token_ids):
            law = laws.after(result.token_ids[:index])
            if law[token] == 0:
                return Check(name, False, f"seed {seed} emitted token {token}, whose probability is zero")
            value = transform(law, token, uniform(mix(seed * 1_000_003 + index)))
            counts[min(int(value * BINS), BINS - 1)] += 1
    p_value = chi_square(counts)
    kept = f"{accepted} of {drafted} drafted ones kept"
    detail = f"{int(counts.sum())} tokens of {seeds} seeds, {kept}: p = {p_value:.2g}"
    return Check(name, p_value >= LEVEL, detail)


class PrefixLaws:
    """The laws of plain decoding after a prompt and some tokens, one pass each, kept."""

    def __init__(self, llm: LLM, prompt: Sequence[int], params: SamplingParams) -> None:
        self._llm, self._prompt, self._params = llm, list(prompt), params
        self._cache = llm.model.target.new_cache()
        self._laws: dict[tuple[int, ...], Tensor] = {}

    def after(self, tokens: tuple[int, ...]) -> Tensor:
        """Return the law [V], float32."""
        if tokens not in self._laws:
            text = [*self._prompt, *tokens]
            ends = self._params.stop_token_ids
            processing = processing_of(
                self._params,
                text,
                len(self._prompt),
                end_tokens=ends,
                banned_sequences=banned_sequences(self._params, self._llm.model.tokenizer),
                constraint=grammar_of(self._llm.model, self._params, ends),
            )
            laws = LogitLaws(self._logits(text)[None], self._params, processing)
            self._laws[tokens] = laws[0]
        return self._laws[tokens]

    def _logits(self, text: list[int]) -> Tensor:
        """Return the logits [V] after a text that begins with the prompt, which is read once."""
        cache, shared = self._cache, len(self._prompt) - 1
        cache.truncate(min(cache.length, shared))
        fresh = text[cache.length :]
        rows = range(len(fresh))
        positions = tuple(cache.length + row for row in rows)
        parents = tuple(row - 1 for row in rows)
        batch = Batch(tuple(fresh), positions, (0,) * len(fresh), parents, (len(fresh) - 1,))
        logits = self._llm.model.target.forward(batch, [cache])[0]
        cache.keep(rows)
        return logits


def transform(law: Tensor, token: int, v: float) -> float:
    """Return F(x-) + v p(x), tokens in falling order of probability and rising order of id among equals."""
    p = law.to(torch.float64)
    own = p[token]
    before = p[p > own].sum() + p[:token][p[:token] == own].sum()
    return float((before + v * own) / p.sum())


def chi_square(counts: Tensor) -> float:
    """Return the p-value of Pearson's test that counts come from equally likely bins."""
    expected = counts.sum() / len(counts)
    statistic = ((counts - expected) ** 2 / expected).sum()
    half = torch.tensor((len(counts) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(half, statistic / 2))
