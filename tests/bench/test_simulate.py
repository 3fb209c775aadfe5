"""The simulated engine does what the engine does: the same passes, row by row, or as many on average."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from conftest import VOCAB, toy_model
from outrider.bench.drafting import Chains, Replayed
from outrider.bench.served import Job, Simulated, System
from outrider.bench.simulate import simulate
from outrider.bench.traces import Trace, TracedDraft, TracingDrafter
from outrider.engine.engine import Engine
from outrider.engine.scheduler import Limits
from outrider.loop.draft.base import Ask, Drafter
from outrider.loop.draft.none import NoDrafter
from outrider.loop.draft.worth import best_count
from outrider.models.toy import ToyTarget
from outrider.planner.forecast import survival
from outrider.planner.latency import Latency
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree

CURVE = Latency((1, 2, 4, 8, 16, 64), (1000.0, 1010.0, 1050.0, 1200.0, 2000.0, 9000.0), 0.01, 0.02)
LIMITS = Limits(running=4, read_rows=16, beside_rows=6)
JOBS = [Job(2 + 7 * n % 40, 5 + 3 * n % 17) for n in range(14)]


class Recording(ToyTarget):
    """A toy that notes how long each of its passes would take on the curve."""

    milliseconds = 0.0
    passes = 0
    rows = 0

    def forward(self, batch: Any, caches: Any) -> Any:
        keys = sum(caches[sequence].length for sequence in batch.sequences)
        self.milliseconds += CURVE.at(len(batch), keys, sum(cache.length for cache in caches))
        self.passes += 1
        self.rows += len(batch)
        return super().forward(batch, caches)


class Knowing(NoDrafter):
    """Knows the texts, and spoils each token of its chains with a chance: α is what it is told to be."""

    speculates = True

    def __init__(self, texts: Sequence[Sequence[int]], alphas: Sequence[float]) -> None:
        self._texts, self._alphas, self._chance = texts, alphas, random.Random(1)

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        trees = []
        for ask in asks:
            done = len(ask.tokens)
            [text] = {tuple(t) for t in self._texts if list(t[:done]) == list(ask.tokens)}
            right = [self._chance.random() < self._alphas[min(d, len(self._alphas) - 1)] for d in range(99)]
            tokens = text[done : done + ask.budget]
            chain = tuple((t + (not yes)) % VOCAB for t, yes in zip(tokens, right, strict=False))
            chances = survival(self._alphas, len(chain))
            count = best_count(chances, ask.costs)
            trees.append(DraftTree.chain(chain[:count], chances=chances[:count]))
        return trees


def prompts() -> list[list[int]]:
    chance = random.Random(0)
    return [[chance.randrange(VOCAB) for _ in range(job.prompt)] for job in JOBS]


class Uneven(Knowing):
    """Spoils all it drafts for every other text: what becomes of a draft depends on whose it is."""

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        trees = super().propose(asks)
        done = [list(ask.tokens) for ask in asks]
        wrong = [next(n for n, t in enumerate(self._texts) if t[: len(d)] == d) % 2 for d in done]
        return [
            replace(tree, tokens=tuple((token + bad) % VOCAB for token in tree.tokens))
            for tree, bad in zip(trees, wrong, strict=True)
        ]


def run_engine(drafter: Drafter, clients: int) -> tuple[Recording, list[list[int]]]:
    """Run the jobs through the engine, a client asking again once it is answered."""
    target = Recording(VOCAB, seed=1)
    driver = Engine(toy_model(target), drafter, drafter_name="none", budget=6, latency=CURVE, limits=LIMITS)
    coming, live, texts = 0, set[int](), list[list[int]]()
    requests = []
    while coming < len(JOBS) or live:
        while coming < len(JOBS) and len(live) < clients:
            params = SamplingParams(max_tokens=JOBS[coming].output, ignore_eos=True)
            requests.append(driver.submit(prompts()[coming], params))
            live.add(requests[-1].number)
            coming += 1
        for event in driver.step():
            if event.chunk.result is not None:
                live.remove(event.request.number)
    for request in requests:
        texts.append(list(request.sequence.tokens))
    return target, texts


@pytest.mark.parametrize("clients", [1, 3, 7])
def test_plain_decoding_takes_the_very_passes_of_the_engine(clients: int) -> None:
    target, _ = run_engine(NoDrafter(), clients)
    found = simulate(System(CURVE, LIMITS), JOBS, clients=clients)
    assert found.steps == target.passes
    assert found.milliseconds == pytest.approx(target.milliseconds)
    assert found.tokens == sum(job.output for job in JOBS)


@pytest.mark.parametrize("clients", [1, 3, 7])
def test_drafts_that_always_come_true_take_the_very_passes_of_the_engine(clients: int) -> None:
    _, texts = run_engine(NoDrafter(), 1)
    target, again = run_engine(Knowing(texts, [1.0]), clients)
    found = simulate(System(CURVE, LIMITS, Chains([1.0], 6)), JOBS, clients=clients)
    assert sorted(again) == sorted(texts)
    assert found.steps == target.passes < sum(job.output for job in JOBS)
    assert found.milliseconds == pytest.approx(target.milliseconds)


@pytest.mark.parametrize("drafter", [Knowing, Uneven])
@pytest.mark.parametrize("alphas", [[0.8], [0.6, 0.3], [0.0]])
@pytest.mark.parametrize("clients", [1, 3, 7])
def test_traced_drafts_take_the_very_passes_of_the_engine_that_made_them(
    drafter: type[Knowing], alphas: list[float], clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where breakers stop some of them, or leave new sequences without credit."""
    _, texts = run_engine(NoDrafter(), 1)
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)  # drafts take no time
    traced = TracingDrafter(drafter(texts, alphas))
    target, _ = run_engine(traced, clients)
    traces = traced.traces([text[job.prompt :] for text, job in zip(texts, JOBS, strict=True)])
    found = simulate(System(CURVE, LIMITS, Replayed(traces, 6)), JOBS, clients=clients)
    assert found.steps == target.passes
    assert found.milliseconds == pytest.approx(target.milliseconds)
    assert found.nodes == target.rows - sum(job.prompt - 1 for job in JOBS) - found.rows


def test_where_all_drafts_fail_new_requests_begin_without_credit() -> None:
    """Each text is too short to find out by itself."""
    curve = Latency((1, 2), (10.0, 11.0))
    failing = Trace(1, 4, tuple(TracedDraft(at, (0.9,), (False,)) for at in range(4)))
    system = System(curve, Limits(), Replayed([failing], 4))
    found = simulate(system, [Job(1, 4)] * 200, clients=1)
    assert found.nodes < 0.3 * found.steps


def test_time_that_a_draft_takes_to_make_is_weighed_against_what_it_brings() -> None:
    flat = Latency((1, 2), (10.0, 10.0))
    right = Trace(1, 400, tuple(TracedDraft(at, (0.9,), (True,)) for at in range(400)))
    cheap = simulate(System(flat, Limits(), Replayed([right], 1, 1.0)), [Job(1, 400)], clients=1)
    dear = simulate(System(flat, Limits(), Replayed([right], 1, 20.0)), [Job(1, 400)], clients=1)
    assert cheap.nodes == 200
    assert dear.nodes < 10
    assert cheap.milliseconds == pytest.approx(200 * 11.0)


def test_a_fixed_budget_is_drafted_whatever_it_costs() -> None:
    dear = Latency((1, 2), (10.0, 20.0))
    wrong = Trace(1, 20, tuple(TracedDraft(at, (0.1,) * 3, (False,) * 3) for at in range(20)))
    found = simulate(System(dear, Limits(), Replayed([wrong], 3, free=True)), [Job(1, 20)], clients=1)
    assert found.nodes == 17 * 3 + 2 + 1  # the last tokens leave room for fewer


def test_rows_that_only_read_take_as_long_as_such_rows_do() -> None:
    flat, reading = Latency((1, 2), (10.0, 10.0)), Latency((1, 2), (1.0, 2.0))
    found = simulate(System(flat, Limits(), reading=reading), [Job(5, 1)], clients=1)
    assert found.milliseconds == 10.0 + 4.0


def test_a_machine_that_is_held_up_takes_as_much_longer() -> None:
    flat = Latency((1, 2), (10.0, 10.0))
    found = simulate(System(flat, Limits(), overhead=1.0, stretch=1.5), [Job(1, 3)], clients=1)
    assert found.milliseconds == 3 * (15.0 + 1.0)


def test_an_answer_that_ends_early_is_drafted_for_as_if_it_went_on() -> None:
    flat = Latency((1, 2), (10.0, 10.0))
    trace = Trace(1, 2, (TracedDraft(0, (0.9,) * 4, (True, False, False, False)),))
    found = simulate(System(flat, Limits(), Replayed([trace], 9)), [Job(1, 2, most=10)], clients=1)
    assert (found.steps, found.nodes, found.tokens) == (1, 4, 2)


@pytest.mark.parametrize("alphas", [[0.8], [0.9, 0.5], [0.3], [0.05]])
@pytest.mark.parametrize("clients", [1, 4])
def test_drafts_that_sometimes_come_true_take_as_long_as_in_the_engine(
    alphas: list[float], clients: int
) -> None:
    _, texts = run_engine(NoDrafter(), 1)
    target, _ = run_engine(Knowing(texts, alphas), clients)
    runs = [
        simulate(System(CURVE, LIMITS, Chains(alphas, 6)), JOBS, clients=clients, seed=seed)
        for seed in range(10)
    ]
    mean = sum(run.milliseconds for run in runs) / len(runs)
    assert mean == pytest.approx(target.milliseconds, rel=0.1)


def times(found: Simulated) -> list[tuple[float, float, float]]:
    return [(request.arrived, request.first[0], request.last) for request in found.served]


def test_requests_that_come_at_given_times_wait_for_the_pass_that_runs() -> None:
    flat = System(Latency((1, 2), (10.0, 10.0)), Limits())
    jobs = [Job(1, 2), Job(1, 2), Job(1, 1)]
    assert times(simulate(flat, jobs, arrivals=[0.0, 3.0, 95.0])) == [
        (0.0, 10.0, 20.0),
        (3.0, 20.0, 30.0),
        (95.0, 105.0, 105.0),
    ]


def test_times_count_from_arrival_and_between_tokens() -> None:
    flat = System(Latency((1, 2), (10.0, 10.0)), Limits(), overhead=1.0)
    [one, short] = simulate(flat, [Job(1, 3), Job(1, 1)], arrivals=[5.0, 100.0]).served
    assert (one.time_to_first_token, one.time_per_token) == (11.0, 11.0)
    assert (short.time_to_first_token, short.time_per_token) == (11.0, None)


def test_no_more_requests_run_than_the_limits_allow() -> None:
    flat = System(Latency((1, 2), (10.0, 10.0)), Limits(running=1))
    first, second = simulate(flat, [Job(1, 3), Job(1, 3)], clients=2).served
    assert (first.last, second.first[0]) == (30.0, 40.0)


def test_nodes_are_drafted_where_their_chance_is_worth_their_time_and_nowhere_else() -> None:
    curve = Latency((1, 2), (10.0, 11.0))
    found = simulate(System(curve, Limits(), Chains([0.2], 4)), [Job(1, 2000)], clients=1)
    assert found.undrafted < 0.01 * found.steps, "a chance of 0.2 pays where a node costs 0.1"
    dear = Latency((1, 2), (10.0, 20.0))
    assert simulate(System(dear, Limits(), Chains([0.2], 4)), [Job(1, 20)], clients=1).nodes == 0


def test_a_drafter_that_is_often_silent_drafts_as_often_as_it_speaks() -> None:
    flat = System(Latency((1, 2), (10.0, 10.0)), Limits(), Chains([0.5], 1, share=0.25))
    found = simulate(flat, [Job(1, 4000)], clients=1)
    assert found.nodes / found.steps == pytest.approx(0.25, abs=0.03)
    assert found.undrafted / found.emitting == pytest.approx(0.75, abs=0.03)


def test_every_drafted_token_takes_a_pass_of_the_draft_model() -> None:
    flat, draft = Latency((1, 2), (10.0, 10.0)), Latency((1, 2), (1.0, 1.0))
    found = simulate(System(flat, Limits(), Chains([1.0], 3, model=draft)), [Job(1, 8)], clients=1)
    assert (found.steps, found.milliseconds) == (2, 26.0)


def test_nothing_is_drafted_where_rows_that_read_a_prompt_fill_the_cheap_part_of_a_pass() -> None:
    """Of four rows that cost no more than one, three read a prompt for ten passes."""
    cliff = Latency((1, 4, 5), (10.0, 10.0, 100.0))
    system = System(cliff, Limits(beside_rows=3), Chains([1.0], 3))
    decoding, reading = simulate(system, [Job(1, 30), Job(31, 1)], clients=2).served
    assert reading.first[0] == 110.0
    assert decoding.last == pytest.approx(110.0 + 10 * 5, abs=10)
