"""Every option under every drafter and every rule: each node's law sees the tokens on its own path.

Options that look at a single row (temperature and filters) stand in `test_conformance.py`.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from functools import cache

import pytest

from conftest import VOCAB, run, toy_model
from matrix import (
    ALL_DRAFTERS,
    EOS,
    KEEPING_LAWS,
    KEEPING_TOKENS,
    LAW_CASES,
    PREFIXED,
    SAMPLINGS,
    SMALL,
    make_drafter,
)
from outrider.engine.engine import Engine
from outrider.errors import DeadEndError
from outrider.loop.accept.enumeration import EnumeratingSource, Outcome, law_of
from outrider.loop.accept.table import RuleChoice, resolve_rule
from outrider.models.toy import ToyTarget
from outrider.registry import RULES
from outrider.sampling.params import SamplingParams
from reference import ended, reference_law, reference_tokens, settings

PROMPTS = [[0, 1, 2], [3], [4, 5, 4, 5, 4, 5, 4], [7, 6, 5, 4, 3, 2, 1, 0, 7, 6, 5]]


TARGET = ToyTarget(VOCAB, seed=1, zeros=0.0)


@cache
def reference_texts(sampling: str, length: int) -> list[list[int]]:
    """What plain decoding emits after each prompt: the same for every drafter and every rule."""
    params = settings(**{"ignore_eos": True, "max_tokens": length, **SAMPLINGS[sampling]})
    return [reference_tokens(TARGET, prompt, params, EOS) for prompt in PROMPTS]


@pytest.mark.parametrize("sampling", PREFIXED)
@pytest.mark.parametrize("drafter", ALL_DRAFTERS)
def test_a_rule_of_same_tokens_emits_what_the_slow_reference_emits(drafter: str, sampling: str) -> None:
    target = TARGET
    params = settings(**{"ignore_eos": True, "max_tokens": 24, **SAMPLINGS[sampling]})
    expected = reference_texts(sampling, 24)
    for rule in [*KEEPING_TOKENS, *(KEEPING_LAWS if params.temperature == 0 else [])]:
        if params.temperature > 0 and not RULES.load(rule).samples:
            continue
        results = run(toy_model(target, EOS), make_drafter(drafter, target), PROMPTS, params, rule=rule)
        assert [list(result.token_ids) for result in results] == expected


KEPT = ("temperature", "ignore_eos", "stop_token_ids", "max_tokens")


@pytest.mark.parametrize("sampling", PREFIXED)
def test_an_option_changes_the_text(sampling: str) -> None:
    """Otherwise the test above could not tell that it is honoured."""
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    options = {"ignore_eos": True, **PREFIXED[sampling]}
    without = {key: options[key] for key in KEPT if key in options}
    [*with_it] = run(toy_model(target, EOS), make_drafter("suffix", target), PROMPTS, settings(**options))
    [*free] = run(toy_model(target, EOS), make_drafter("suffix", target), PROMPTS, settings(**without))
    assert [r.token_ids for r in with_it] != [r.token_ids for r in free]


def enumerated(
    target: ToyTarget, drafter: str, rule: str, params: SamplingParams
) -> dict[tuple[int, ...], Fraction]:
    """Return the law of the text of a request, over all outcomes of all draws that the loop makes."""

    def speculate(outcome: Outcome) -> tuple[int, ...]:
        made = make_drafter(drafter, target, share=Fraction(1, 2))
        driver = Engine(toy_model(target, (2,)), made, drafter_name=drafter, rule=rule, budget=2)
        request = driver.submit([1, 0, 1], params, draws=EnumeratingSource(outcome))
        while request.result is None:
            driver.step()
        return request.result.token_ids

    return law_of(speculate)


def expected_law(target: ToyTarget, params: SamplingParams) -> dict[tuple[int, ...], float]:
    """Return the law of the text of plain decoding, from the slow reference."""
    ends = {*params.stop_token_ids, *(() if params.ignore_eos else (2,))}
    open_texts: dict[tuple[int, ...], float] = {(): 1.0}
    closed: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for _ in range(params.max_tokens or 0):
        grown: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for text, mass in open_texts.items():
            p = reference_law(target, params, [1, 0, 1], text, (2,))
            for token, chance in enumerate(p.tolist()):
                if chance:
                    over = ended(params, [*text, token], ends, target.vocab_size)
                    (closed if over else grown)[*text, token] += mass * chance
        open_texts = dict(grown)
    return {**closed, **open_texts}


@pytest.mark.parametrize(("drafter", "sampling", "length"), LAW_CASES)
@pytest.mark.parametrize("rule", KEEPING_LAWS)
def test_the_law_of_a_text_is_that_of_the_slow_reference_over_all_outcomes(
    rule: str, drafter: str, sampling: str, length: int
) -> None:
    target = ToyTarget(3, seed=3, order=1, zeros=0.0)
    params = settings(**{"ignore_eos": True, **SMALL[sampling], "max_tokens": length})
    assert resolve_rule(RuleChoice(rule), params, has_law=True, branches=True).samples
    found = enumerated(target, drafter, rule, params)
    expected = expected_law(target, params)
    assert set(found) == set(expected)
    for text, mass in found.items():
        assert float(mass) == pytest.approx(expected[text], abs=3e-6)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("rule", ["auto", "rejection"])
def test_a_draft_model_equal_to_the_target_is_always_right_under_every_option(
    rule: str, sampling: str
) -> None:
    """It draws each guess under the very options of the target, on the guess's own path."""
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    params = settings(**{**SAMPLINGS[sampling], "ignore_eos": True, "stop_token_ids": ()})
    made = make_drafter("lm", target, share=Fraction(1))
    for result in run(toy_model(target, EOS), made, PROMPTS, params, rule=rule, budget=4):
        assert result.speculation.accepted == result.speculation.drafted > 0


class NeverThree(ToyTarget):
    """A target that gives token 3 no probability anywhere."""

    def _own_law(self, context: tuple[int, ...]) -> tuple[Fraction, ...]:
        own = super()._own_law(context)
        return tuple(0 * p if token == 3 else p / (1 - own[3]) for token, p in enumerate(own))


@pytest.mark.parametrize("drafter", ALL_DRAFTERS)
def test_a_draft_that_runs_into_a_dead_end_stops_there_and_the_text_goes_on(drafter: str) -> None:
    """Nothing may follow token 3, which only drafters think of."""
    target = NeverThree(4, seed=5, zeros=0.0)
    params = settings(temperature=1.0, banned_words=("da", "db", "dc", "dd"), max_tokens=30)
    for rule in ["coupled", *KEEPING_LAWS]:
        results = run(toy_model(target), make_drafter(drafter, target), [[0], [1], [2]], params, rule=rule)
        for prompt, result in zip([[0], [1], [2]], results, strict=True):
            assert 3 not in result.token_ids
            if rule == "coupled":
                assert list(result.token_ids) == reference_tokens(target, prompt, params)


def test_options_that_leave_no_token_are_an_error_that_names_them() -> None:
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    params = settings(allowed_tokens=(0, 1), no_repeat_ngram_size=1, repetition_penalty=1.1, max_tokens=9)
    with pytest.raises(DeadEndError, match=r"after 2 tokens .* allowed_tokens, no_repeat_ngram_size exclude"):
        run(toy_model(target), make_drafter("suffix", target), [[5]], params)
