"""The whole loop by enumeration: this drafter, this rule, these options, on toy models, in every outcome."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from outrider.bench.audit.check import Check
from outrider.bench.audit.small import VOCAB, on_small
from outrider.bench.audit.toy_heads import toy_head, toy_medusa
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
    model gets one that agrees with the target half of the time. The options are put to three letters as
    `on_small` says.
    """
    params = on_small(params, sampled=can_sample(rule))
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
    plain = DRAFTERS.load("none").build(model.target, None, {})

    def speculate(outcome: Outcome) -> Text:
        nonlocal drafted, promise
        made = drafter()
        engine = Engine(
            model, made, drafter_name=made.name, rule=rule, guarantee=guarantee, lossy=True, budget=BUDGET
        )
        result = _run(engine, prompt, params, outcome)
        drafted += result.speculation.drafted
        promise = result.speculation.guarantee
        return result.token_ids

    def plain_text(outcome: Outcome) -> Text:
        return _run(Engine(model, plain, drafter_name="none", budget=0), prompt, params, outcome).token_ids

    found: defaultdict[Text, Fraction] = defaultdict(Fraction)
    for text, outcome in outcomes(speculate):
        if promise is Guarantee.LOSSY:
            return Check(name, True, f"not looked at: rule {rule} promises nothing")
        if promise is Guarantee.SAME_TOKENS:
            expected = plain_text(outcome)  # which may decide more, so the weight is taken afterwards
            if text != expected:
                return Check(name, False, f"emitted {text} where plain decoding emits {expected}")
        found[text] += outcome.weight
    expected_law = {text: float(mass) for text, mass in law_of(plain_text).items()}
    for text in sorted(found.keys() | expected_law.keys()):
        mass, wanted = float(found.get(text, 0)), expected_law.get(text, 0.0)
        if abs(mass - wanted) > ROUNDING:
            return Check(name, False, f"{text} has probability {mass:.6f}, not {wanted:.6f}")
    return Check(name, True, f"{len(found)} texts, {drafted} nodes drafted: the law of plain decoding")


def _run(engine: Engine, prompt: Sequence[int], params: SamplingParams, outcome: Outcome) -> Result:
    request = engine.submit(prompt, params, draws=EnumeratingSource(outcome))
    while engine.busy:
        engine.step()
    if request.error is not None:
        raise request.error
    assert request.result is not None
    return request.result


def _toy_drafter(spec: str, target: ToyTarget, options: Mapping[str, Any]) -> Drafter:
    parsed = parse_drafter(spec)
    fitted = getattr(DRAFTERS.load(parsed.name), "fitted", None)
    if fitted is not None:
        options = fitted(options, len(target.layer_bytes))
    like: Any = None
    part = parsed.parts[-1] if parsed.parts else parsed.name
    if parsed.model is not None and getattr(DRAFTERS.load(part), "takes_head", False):
        like = toy_medusa(target) if part == "medusa" else toy_head(target)
    elif parsed.model is not None:
        model = ToyTarget(VOCAB, seed=9, like=target, share=Fraction(1, 2))
        like = LoadedModel("toy", model, ToyTokenizer(VOCAB))
    return assemble(parsed, LoadedModel("toy", target, ToyTokenizer(VOCAB)), like, options)
