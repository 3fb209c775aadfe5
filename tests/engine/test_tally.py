"""Requests of one pass may differ in rule and budget, and what the engine counts is what they record."""

from __future__ import annotations

import pytest

from conftest import VOCAB, RandomTrees, toy_model
from outrider.engine.engine import Engine
from outrider.engine.request import Request
from outrider.errors import OptionError
from outrider.loop.accept.table import RuleChoice
from outrider.models.toy import ToyTarget
from outrider.sampling.params import SamplingParams

TARGET = ToyTarget(VOCAB, seed=1)
PROMPT = [1, 2, 3]
SAMPLED = SamplingParams(temperature=1.0, seed=4, max_tokens=30, ignore_eos=True)


def engine() -> Engine:
    return Engine(toy_model(TARGET), RandomTrees(1), drafter_name="random", budget=6)


def ended(driver: Engine, *requests: Request) -> list[Request]:
    while driver.busy:
        driver.step()
    assert all(request.result is not None for request in requests)
    return list(requests)


def test_budgets_and_rules_of_single_requests_hold_beside_others_and_keep_the_text() -> None:
    driver = engine()
    plain = driver.submit(PROMPT, SAMPLED, budget=0)
    narrow = driver.submit(PROMPT, SAMPLED, budget=2)
    wide = driver.submit(PROMPT, SAMPLED)
    other = driver.submit(PROMPT, SAMPLED, rule=RuleChoice("rejection"))
    ended(driver, plain, narrow, wide, other)
    for request, most in ((plain, 0), (narrow, 2), (wide, 6), (other, 6)):
        assert max(step.drafted for step in request.sequence.steps) <= most
    results = [request.result for request in (plain, narrow, wide, other)]
    assert results[0] is not None
    assert results[1] is not None
    assert results[2] is not None
    assert results[3] is not None
    assert results[0].token_ids == results[1].token_ids == results[2].token_ids
    assert results[0].speculation.drafter == "none"
    assert results[0].speculation.passes == 30
    assert results[2].speculation.drafted > results[1].speculation.drafted > 0
    assert (results[3].speculation.rule, str(results[3].speculation.guarantee)) == ("rejection", "same_law")


def test_a_budget_above_the_engines_own_is_refused() -> None:
    for budget in (7, -1, True, 1.5):
        with pytest.raises(OptionError, match="budget"):
            engine().submit(PROMPT, SAMPLED, budget=budget)  # type: ignore[arg-type]


def test_the_tally_is_the_sum_of_what_requests_record_also_of_those_that_were_ended() -> None:
    driver = engine()
    requests = [driver.submit([*PROMPT, seed], SAMPLED) for seed in range(3)]
    for _ in range(5):
        driver.step()
    driver.abort(requests[0])
    ended(driver, *requests)
    done = [request.result.speculation for request in requests if request.result is not None]
    tally = driver.tally
    assert tally.drafted == sum(each.drafted for each in done) > 0
    assert tally.accepted == sum(each.accepted for each in done) > 0
    assert tally.tokens == sum(each.tokens for each in done)
    assert tally.drafts == sum(each.drafted_per_position[0] for each in done)
    for depth, count in enumerate(tally.accepted_per_position):
        assert count == sum(sum(each.accepted_per_position[depth : depth + 1]) for each in done)
    assert tally.steps <= sum(each.passes for each in done)
    assert 0 <= tally.plain_steps < tally.steps
    assert driver.use.running == driver.use.waiting == 0


def test_steps_that_only_read_count_apart_and_plain_ones_are_known() -> None:
    driver = engine()
    request = driver.submit([1] * 600, SAMPLED, budget=0)
    ended(driver, request)
    assert driver.tally.reading_steps == 1
    assert driver.tally.steps == driver.tally.plain_steps == 30
    assert driver.tally.drafts == 0


def test_bytes_in_use_are_known_while_requests_run_and_gone_with_them() -> None:
    driver = engine()
    requests = [driver.submit(PROMPT, SAMPLED) for _ in range(2)]
    driver.step()
    assert driver.use.cache_bytes > 0
    for request in requests:
        driver.abort(request)
    assert driver.use.cache_bytes == 0
