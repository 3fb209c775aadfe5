"""The simulated engine does what the engine does: the same passes, row by row, or as many on average."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from conftest import VOCAB, toy_model
from outrider.bench.simulate import Drafts, Job, Simulated, System, simulate
from outrider.engine.engine import Engine
from outrider.engine.scheduler import Limits
from outrider.loop.draft.base import Ask, Drafter
from outrider.loop.draft.none import NoDrafter
from outrider.models.toy import ToyTarget
from outrider.planner.forecast import survival
from outrider.planner.latency import Latency
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree

CURVE = Latency((1, 2, 4, 8, 16, 64), (1000.0, 1010.0, 1050.0, 1200.0, 2000.0, 9000.0), per_key=0.01)
LIMITS = Limits(running=4, read_rows=16, beside_rows=6)
JOBS = [Job(2 + 7 * n % 40, 5 + 3 * n % 17) for n in range(14)]


class Recording(ToyTarget):
    """A toy that notes how long each of its passes would take on the curve."""

    milliseconds = 0.0
    passes = 0

    def forward(self, batch: Any, caches: Any) -> Any:
        keys = sum(caches[sequence].length for sequence in batch.sequences)
        self.milliseconds += CURVE.at(len(batch), keys)
        self.passes += 1
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
            chances = tuple(survival(self._alphas, len(chain)))
            trees.append(DraftTree(chain, tuple(range(-1, len(chain) - 1)), chances=chances))
        return trees


def prompts() -> list[list[int]]:
    chance = random.Random(0)
    return [[chance.randrange(VOCAB) for _ in range(job.prompt)] for job in JOBS]


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
    found = simulate(System(CURVE, LIMITS, Drafts([1.0], 6)), JOBS, clients=clients)
    assert sorted(again) == sorted(texts)
    assert found.steps == target.passes < sum(job.output for job in JOBS)
    assert found.milliseconds == pytest.approx(target.milliseconds)


@pytest.mark.parametrize("alphas", [[0.8], [0.9, 0.5], [0.3], [0.05]])
@pytest.mark.parametrize("clients", [1, 4])
def test_drafts_that_sometimes_come_true_take_as_long_as_in_the_engine(
    alphas: list[float], clients: int
) -> None:
    _, texts = run_engine(NoDrafter(), 1)
    target, _ = run_engine(Knowing(texts, alphas), clients)
    runs = [
        simulate(System(CURVE, LIMITS, Drafts(alphas, 6)), JOBS, clients=clients, seed=seed)
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
    found = simulate(System(curve, Limits(), Drafts([0.2], 4)), [Job(1, 2000)], clients=1)
    assert found.undrafted == 0, "a chance of 0.2 pays where a node costs 0.1"
    dear = Latency((1, 2), (10.0, 20.0))
    assert simulate(System(dear, Limits(), Drafts([0.2], 4)), [Job(1, 20)], clients=1).nodes == 0


def test_a_drafter_that_is_often_silent_drafts_as_often_as_it_speaks() -> None:
    flat = System(Latency((1, 2), (10.0, 10.0)), Limits(), Drafts([0.5], 1, share=0.25))
    found = simulate(flat, [Job(1, 4000)], clients=1)
    assert found.nodes / found.steps == pytest.approx(0.25, abs=0.03)
    assert found.undrafted / found.emitting == pytest.approx(0.75, abs=0.03)


def test_every_drafted_token_takes_a_pass_of_the_draft_model() -> None:
    flat, draft = Latency((1, 2), (10.0, 10.0)), Latency((1, 2), (1.0, 1.0))
    found = simulate(System(flat, Limits(), Drafts([1.0], 3, model=draft)), [Job(1, 8)], clients=1)
    assert (found.steps, found.milliseconds) == (2, 26.0)


def test_nothing_is_drafted_where_rows_that_read_a_prompt_fill_the_cheap_part_of_a_pass() -> None:
    """Of four rows that cost no more than one, three read a prompt for ten passes."""
    cliff = Latency((1, 4, 5), (10.0, 10.0, 100.0))
    system = System(cliff, Limits(beside_rows=3), Drafts([1.0], 3))
    decoding, reading = simulate(system, [Job(1, 30), Job(31, 1)], clients=2).served
    assert reading.first[0] == 110.0
    assert decoding.last == pytest.approx(110.0 + 10 * 5, abs=10)
