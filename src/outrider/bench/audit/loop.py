"""The whole loop by enumeration: this drafter, this rule, these options, on toy models, in every outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from outrider.bench.audit.check import Check
from outrider.drafters import assemble, parse_drafter
from outrider.engine.engine import Engine
from outrider.engine.result import Result
from outrider.errors import DeadEndError
from outrider.loop.accept.enumeration import EnumeratingSource, Outcome, law_of, outcomes
from outrider.loop.accept.table import can_sample
from outrider.loop.draft.base import Drafter
from outrider.models.base import LoadedModel
from outrider.models.toy import ToyTarget, ToyTokenizer
from outrider.registry import DRAFTERS
from outrider.sampling.params import SamplingParams
from outrider.types import Guarantee

VOCAB = 3
LENGTH = 3
"""Tokens whose joint law is compared."""
BUDGET = 2
PROMPTS = ([1, 0, 1], [0, 1, 2, 0, 1, 2, 0])
ROUNDING = 3e-6
"""Most difference of two probabilities: laws are float32, and three of them are multiplied."""

Text = tuple[int, ...]


def loop_checks(
    drafter: str,
    rule: str,
    guarantee: str | None,
    params: SamplingParams,
    *,
    options: Mapping[str, Any] | None = None,
    worlds: int = 2,
) -> Iterator[Check]:
    """Compare the joint law of the first tokens with plain decoding's over all outcomes of all draws.

    Drafting, passes, laws, acceptance and commits are those that serve; only the draws are replaced, by every
    outcome with its probability, and the model by small ones with zeros in their laws. A drafter that takes a
    model gets one that agrees with the target half of the time. Options that name tokens or texts speak of
    the real vocabulary and are left out, grammars too.
    """
    params = _small(params, can_sample(rule))
    for world in range(worlds):
        target = ToyTarget(VOCAB, seed=3 + world, order=1, zeros=0.25 * world)
        model = LoadedModel("toy", target, ToyTokenizer(VOCAB, frozenset((VOCAB - 1,))))
        for prompt in PROMPTS:
            name = f"loop {drafter.partition(':')[0]} x {rule}: toy {world + 1}, prompt of {len(prompt)}"
            try:
                yield _check(
                    name,
                    model,
                    partial(_toy_drafter, drafter, target, options or {}),
                    rule,
                    guarantee,
                    params,
                    prompt,
                )
            except DeadEndError as error:
                yield Check(name, True, f"not looked at: with {VOCAB} tokens, {error}")


def _check(
    name: str,
    model: LoadedModel,
    drafter: Callable[[], Drafter],
    rule: str,
    guarantee: str | None,
    params: SamplingParams,
    prompt: Sequence[int],
) -> Check:
    drafted = 0
    promise = Guarantee.LOSSY

    def text_of(outcome: Outcome, made: Drafter, rule: str, guarantee: str | None) -> Text:
        nonlocal drafted, promise
        engine = Engine(
            model, made, drafter_name=made.name, rule=rule, guarantee=guarantee, lossy=True, budget=BUDGET
        )
        result = _run(engine, prompt, params, outcome)
        drafted += result.speculation.drafted
        promise = result.speculation.guarantee
        return result.token_ids

    plain = DRAFTERS.load("none").build(model.target, None, {})

    def speculate(outcome: Outcome) -> Text:
        return text_of(outcome, drafter(), rule, guarantee)

    found = law_of(speculate)
    if promise is Guarantee.LOSSY:
        return Check(name, True, f"not looked at: rule {rule} promises nothing")
    total = drafted
    if promise is Guarantee.SAME_TOKENS:
        for text, outcome in outcomes(speculate):
            expected = text_of(outcome, plain, "auto", None)
            if text != expected:
                return Check(name, False, f"emitted {text} where plain decoding emits {expected}")
    expected_law = _plain_law(model, params, prompt)
    for text in sorted(found.keys() | expected_law.keys()):
        mass, wanted = float(found.get(text, 0)), expected_law.get(text, 0.0)
        if abs(mass - wanted) > ROUNDING:
            return Check(name, False, f"{text} has probability {mass:.6f}, not {wanted:.6f}")
    return Check(name, True, f"{len(found)} texts, {total} nodes drafted: the law of plain decoding")


def _run(engine: Engine, prompt: Sequence[int], params: SamplingParams, outcome: Outcome) -> Result:
    request = engine.submit(prompt, params, draws=EnumeratingSource(outcome))
    while engine.busy:
        engine.step()
    if request.error is not None:
        raise request.error
    assert request.result is not None
    return request.result


def _plain_law(model: LoadedModel, params: SamplingParams, prompt: Sequence[int]) -> dict[Text, float]:
    """Return the law of the text of plain decoding, which draws from nothing but the target's laws."""
    plain = DRAFTERS.load("none").build(model.target, None, {})

    def text_of(outcome: Outcome) -> Text:
        engine = Engine(model, plain, drafter_name="none", budget=0)
        return _run(engine, prompt, params, outcome).token_ids

    return {text: float(mass) for text, mass in law_of(text_of).items()}


def _toy_drafter(spec: str, target: ToyTarget, options: Mapping[str, Any]) -> Drafter:
    parsed = parse_drafter(spec)
    like = None
    if parsed.model is not None:
        model = ToyTarget(VOCAB, seed=9, like=target, share=Fraction(1, 2))
        like = LoadedModel("toy", model, ToyTokenizer(VOCAB))
    return assemble(parsed, target, like, options)


def _small(params: SamplingParams, sampled: bool) -> SamplingParams:
    """Return the parameters for a vocabulary of three tokens and texts of three, at temperature 1 for 0."""
    return replace(
        params,
        temperature=params.temperature or (1.0 if sampled else 0.0),
        max_tokens=LENGTH,
        min_tokens=min(params.min_tokens, 2),
        top_k=min(params.top_k, 2),
        logit_bias=(),
        allowed_tokens=None,
        banned_tokens=(),
        banned_words=(),
        stop=(),
        stop_token_ids=(),
        json_schema=None,
        json_object=False,
        regex=None,
        grammar=None,
        choice=None,
        n=1,
        best_of=None,
    )
