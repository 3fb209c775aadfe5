from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from conftest import VOCAB, RandomTrees, plain_tokens, toy_model
from outrider.bench.assumed import ByTraces
from outrider.bench.failing import FailingDrafter
from outrider.bench.load import EncodedPrompt, Measured, encoded, load_contestants, run_loads, unequal
from outrider.bench.load_result import load_document, spread
from outrider.bench.load_told import LoadTold, load_told
from outrider.bench.suites import Prompt, Suite
from outrider.bench.traffic import Answer, Load, Run, Steps, drive
from outrider.cache.base import Cache
from outrider.engine.engine import Engine
from outrider.engine.scheduler import Limits
from outrider.errors import LoadError, NumericsError, OptionError, PromptError, UnknownNameError
from outrider.llm import LLM
from outrider.models.base import Batch
from outrider.models.toy import ToyTarget
from outrider.sampling.params import SamplingParams

TARGET = ToyTarget(VOCAB, seed=1)
PROMPTS = [[1, 2, 3], [4, 5, 4, 5, 4], [7, 7, 7, 7], [2, 6] * 6, [0, 1, 0]]
PARAMS = SamplingParams(max_tokens=24, temperature=1.0, seed=3)


class Crowd(ToyTarget):
    """Notes how many sequences take part in each pass."""

    def __init__(self) -> None:
        super().__init__(VOCAB, seed=1)
        self.together: list[int] = []

    def forward(self, batch: Batch, caches: Sequence[Cache]) -> torch.Tensor:
        self.together.append(len(caches))
        return super().forward(batch, caches)


def engine_over(target: ToyTarget, drafter: Any = None, **options: Any) -> Engine:
    made = RandomTrees(1) if drafter is None else drafter
    return Engine(toy_model(target), made, drafter_name=made.name, limits=Limits(running=16), **options)


def toy_llm(drafter: str = "none") -> LLM:
    model = toy_model(TARGET)
    return LLM(model, RandomTrees(1), drafter_name=drafter, rule="auto", budget=6)


def encoded_prompts() -> list[EncodedPrompt]:
    return [EncodedPrompt(Prompt(str(i), "a", ("x",)), tuple(p)) for i, p in enumerate(PROMPTS)]


def test_a_closed_loop_keeps_as_many_requests_on_their_way_as_there_are_clients() -> None:
    target = Crowd()
    run = drive(engine_over(target, budget=0), PROMPTS * 2, PARAMS, Load(clients=3))
    assert max(target.together) == 3
    assert target.together.count(3) > 24 * 2
    assert [len(answer.result.token_ids) for answer in run.answers] == [24] * 10


def test_an_open_loop_sends_at_the_moments_drawn_whatever_has_become_of_those_before() -> None:
    load = Load(rate=200.0)
    moments = load.arrivals(40, seed=5)
    assert moments == load.arrivals(40, seed=5)
    assert moments != load.arrivals(40, seed=6)
    assert moments is not None
    assert moments == sorted(moments)
    assert 0.5 < moments[-1] * 200 / 40 < 2
    run = drive(engine_over(TARGET), PROMPTS * 8, PARAMS, load, seed=5)
    assert [answer.arrived for answer in run.answers] == moments
    assert all(answer.begun >= answer.arrived for answer in run.answers)
    assert run.seconds >= moments[-1]


def test_waiting_counts_from_arrival_and_a_slow_pass_is_seen_in_every_time() -> None:
    class Slow(ToyTarget):
        def forward(self, batch: Batch, caches: Sequence[Cache]) -> torch.Tensor:
            time.sleep(0.02)
            return super().forward(batch, caches)

    engine = Engine(
        toy_model(Slow(VOCAB, seed=1)), RandomTrees(1), drafter_name="r", limits=Limits(running=1), budget=0
    )
    params = SamplingParams(max_tokens=3, seed=1)
    run = drive(engine, PROMPTS[:2], params, Load(clients=2))
    first, second = run.answers
    assert first.time_to_first_token >= 0.02
    assert second.begun - second.arrived >= 0.06
    assert second.time_to_first_token >= 0.08
    assert [tokens for _, tokens in first.chunks] == [1, 1, 1]
    assert first.time_per_token is not None
    assert first.time_per_token == pytest.approx(sum(first.gaps) / 2)
    assert min(first.gaps) >= 0.02
    assert run.steps.steps == run.steps.emitting == run.steps.rows == 6
    assert 0.12 <= run.steps.target_seconds <= run.steps.seconds <= run.seconds


def test_steps_count_what_was_drafted_and_kept_over_all_sequences() -> None:
    run = drive(engine_over(TARGET, RandomTrees(3)), PROMPTS, PARAMS, Load(clients=5))
    made = [answer.result.speculation for answer in run.answers]
    steps = run.steps
    assert steps.tokens == sum(m.tokens for m in made) == 24 * 5
    assert steps.nodes == sum(m.drafted for m in made) > 0
    assert steps.rows == sum(m.passes for m in made)
    assert steps.emitting < steps.rows
    assert sum(tokens for answer in run.answers for _, tokens in answer.chunks) == 24 * 5
    plain = drive(engine_over(TARGET, budget=0), PROMPTS, PARAMS, Load(clients=5)).steps
    assert (plain.nodes, plain.undrafted) == (0, plain.emitting)


def test_answers_stand_in_the_order_of_their_prompts_and_are_those_of_each_alone() -> None:
    for load in (Load(clients=1), Load(clients=4), Load(rate=500.0)):
        run = drive(engine_over(TARGET), PROMPTS, PARAMS, load)
        for prompt, answer in zip(PROMPTS, run.answers, strict=True):
            assert list(answer.result.token_ids) == plain_tokens(TARGET, prompt, PARAMS, 24)


def test_a_request_that_cannot_go_on_ends_the_benchmark_with_its_error() -> None:
    class Broken(ToyTarget):
        def forward(self, batch: Batch, caches: Sequence[Cache]) -> torch.Tensor:
            return super().forward(batch, caches) * math.nan

    with pytest.raises(NumericsError):
        drive(engine_over(Broken(VOCAB, seed=1)), PROMPTS, PARAMS, Load(clients=2))


class Right(RandomTrees):
    """Always guesses the next two tokens of a known text; says what it was told."""

    name = "right"
    observes = False
    features = ()
    caches = ()

    def __init__(self, text: Sequence[int]) -> None:
        super().__init__()
        self.text = list(text)
        self.kept: list[int] = []

    def propose(self, asks: Sequence[Any]) -> list[Any]:
        from outrider.types import DraftTree

        return [DraftTree.chain(self.text[len(ask.tokens) :][: min(2, ask.budget)]) for ask in asks]

    def extend(self, state: list[int], tokens: Sequence[int], kept: int) -> None:
        super().extend(state, tokens, kept)
        self.kept.append(kept)


def test_a_failing_drafter_drafts_as_much_as_the_real_one_and_nothing_of_it_is_kept() -> None:
    text = PROMPTS[0] + plain_tokens(TARGET, PROMPTS[0], PARAMS, 24)
    real, spoilt = Right(text), Right(text)
    kept = drive(engine_over(TARGET, real), PROMPTS[:1], PARAMS, Load(clients=1))
    failed = drive(engine_over(TARGET, FailingDrafter(spoilt, VOCAB)), PROMPTS[:1], PARAMS, Load(clients=1))
    assert kept.answers[0].result.token_ids == failed.answers[0].result.token_ids
    assert (kept.steps.rows, failed.steps.rows) == (8, 24)
    assert (
        failed.steps.nodes == 2 * 22 + 1
    )  # the last but one token leaves room for one guess, the last for none
    assert failed.answers[0].result.speculation.accepted == 0
    assert set(real.kept) >= {2}
    assert set(spoilt.kept) == {0}


@pytest.mark.parametrize("name", ["suffix", "recycle", "merged:suffix+recycle"])
@pytest.mark.parametrize("params", [PARAMS, SamplingParams(max_tokens=24)], ids=["sampled", "greedy"])
def test_texts_stay_those_of_plain_decoding_whatever_is_spoilt(name: str, params: SamplingParams) -> None:
    contestants = load_contestants(toy_llm(), [name, f"failing:{name}"])
    measured = run_loads(contestants, encoded_prompts(), params, [Load(clients=1), Load(clients=3)])
    document = load_document(measured, Suite("s", ()), params, {}, running=16)
    assert [row["identical_to_plain"] for row in document["results"]] == [1.0] * 6
    assert [row["drafter"] for row in document["results"]] == ["none", name, f"failing:{name}"] * 2
    nodes = {row["drafter"]: row["nodes_per_step"] for row in document["results"]}
    assert nodes["none"] == 0
    assert nodes[f"failing:{name}"] > 0


def test_fixed_budgets_run_beside_plain_decoding_and_what_the_planner_decides() -> None:
    llm = toy_llm().using(fill_budget=False)
    names = ["suffix", "fixed:0:suffix", "fixed:3:suffix", "fixed:2:failing:suffix"]
    measured = run_loads(load_contestants(llm, names), encoded_prompts(), PARAMS, [Load(clients=3)])
    rows = load_document(measured, Suite("s", ()), PARAMS, {}, running=16)["results"]
    assert [row["drafter"] for row in rows] == ["none", *names]
    assert [row["identical_to_plain"] for row in rows] == [1.0] * 5
    assert [row["budget"] for row in rows] == [6, 6, 0, 3, 2]
    assert [row["free_nodes"] for row in rows] == [True, False, True, True, True]
    assert [row["nodes_per_step"] > 0 for row in rows[2:]] == [False, True, True]
    steps = 6 * 24 / rows[3]["mean_accepted_length"]
    assert steps - 6 <= steps * rows[3]["asks_per_row"] <= steps, "all but the last step of each answer"
    assert [len(row["drafted_per_position"]) for row in rows[2:]] == [0, 3, 2]


def test_with_a_fixed_budget_nodes_are_free_and_otherwise_they_are_weighed_as_before() -> None:
    llm = toy_llm().using(fill_budget=False)
    [_, found] = load_contestants(llm, ["fixed:4:failing:recycle"])
    made, _ = found.fresh()
    assert (made.budget, made.weighs_costs) == (4, False)
    assert llm.using(drafter="suffix").weighs_costs
    [_, planned] = load_contestants(llm, ["failing:suffix"])
    assert planned.fresh()[0].weighs_costs


@pytest.mark.parametrize(
    "name", ["fixed:suffix", "fixed:-1:suffix", "fixed:3.5:suffix", "fixed:3", "fixed:3:", "fixed::suffix"]
)
def test_a_fixed_budget_that_is_no_number_is_refused_with_what_to_write(name: str) -> None:
    with pytest.raises(OptionError, match="write fixed:K:NAME"):
        load_contestants(toy_llm(), [name])


def test_prefixes_of_a_name_come_in_one_order_and_once() -> None:
    for name in ("failing:fixed:3:suffix", "fixed:3:fixed:2:suffix", "failing:failing:suffix"):
        with pytest.raises(OptionError, match="once"):
            load_contestants(toy_llm(), [name])
    with pytest.raises(UnknownNameError, match="did you mean 'suffix'"):
        load_contestants(toy_llm(), ["fixed:3:sufix"])


def test_a_result_tells_of_its_drafts_what_a_simulation_needs() -> None:
    measured = run_loads(
        load_contestants(toy_llm(), ["suffix"]), encoded_prompts(), PARAMS, [Load(clients=2)], repeats=2
    )
    document = load_document(measured, Suite("s", ()), PARAMS, {}, running=16)
    [plain, row] = json.loads(json.dumps(document))["results"]
    assert (plain["drafted_per_position"], plain["alphas"], plain["answered_asks"]) == ([], [], None)
    assert (plain["ask_ms"], plain["asks_per_row"]) == (None, 0)
    assert row["drafted_per_position"][0] >= row["accepted_per_position"][0] > 0
    assert row["alphas"][0] == row["accepted_per_position"][0] / row["drafted_per_position"][0]
    assert 0 < row["answered_asks"] <= 1
    assert row["ask_ms"] > 0
    assert row["overhead_ms"] > 0
    assert [(trace["prompt_tokens"], trace["tokens"]) for trace in row["traces"]] == [
        (len(prompt), 24) for prompt in PROMPTS
    ]
    told = load_told(document, "load.json", "suffix")
    assert measured[1].noted is not None
    for read, noted in zip(told.rows[0].traces, measured[1].noted.traces, strict=True):
        assert [(d.at, d.right) for d in read.drafts] == [(d.at, d.right) for d in noted.drafts]
        for draft, other in zip(read.drafts, noted.drafts, strict=True):
            assert draft.chances == pytest.approx(other.chances, rel=0.01)
    assert (told.max_tokens, told.running, told.rows[0].free) == (24, 16, True)


def test_a_load_that_was_not_measured_is_taken_for_the_one_most_like_it() -> None:
    measured = run_loads(
        load_contestants(toy_llm(), []),
        encoded_prompts(),
        PARAMS,
        [Load(clients=1), Load(clients=8), Load(rate=500.0)],
        count=2,
    )
    told = load_told(load_document(measured, Suite("s", ()), PARAMS, {}, running=16), "load.json", "none")
    assert told.near(Load(clients=8)).load == Load(clients=8)
    assert told.near(Load(clients=2)).load == Load(clients=1)
    assert told.near(Load(clients=99)).load == Load(clients=8)
    assert told.near(Load(rate=1.0)).load == Load(rate=500.0)
    closed = LoadTold(told.rows[:2], 24, 16)
    assert closed.near(Load(rate=1.0)).load == Load(clients=1)


def test_results_without_traces_or_the_drafter_are_refused() -> None:
    measured = run_loads(load_contestants(toy_llm(), []), encoded_prompts(), PARAMS, [Load(clients=1)])
    document = load_document(measured, Suite("s", ()), PARAMS, {}, running=16)
    with pytest.raises(LoadError, match="no figures of 'suffix'; it has those of: none"):
        load_told(document, "load.json", "suffix")
    for row in document["results"]:
        del row["traces"]
    with pytest.raises(OptionError, match="measure it again"):
        load_told(document, "load.json", "none")


def test_rounds_take_turns_and_every_run_starts_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import outrider.bench.load as module

    log: list[tuple[str, int | None, int]] = []
    made: list[Any] = []

    def watched(engine: Engine, prompts: Sequence[Any], params: Any, load: Load, **options: Any) -> Run:
        drafter = engine._drafter  # type: ignore[attr-defined]
        made.append(drafter._drafter)
        log.append((drafter.name, load.clients, len(prompts)))
        return drive(engine, prompts, params, load, **options)

    monkeypatch.setattr(module, "drive", watched)
    contestants = load_contestants(toy_llm(), ["suffix", "recycle"])
    found = run_loads(contestants, encoded_prompts(), PARAMS, [Load(clients=1), Load(clients=4)], repeats=2)
    warm_up, runs = log[:3], log[3:]
    assert [name for name, _, _ in warm_up] == ["none", "suffix", "recycle"]
    order = ["none", "suffix", "recycle", "suffix", "recycle", "none"]
    assert [name for name, _, _ in runs] == order + order[3:] + ["recycle", "none", "suffix"]
    assert [count for _, _, count in runs] == [5, 5, 5, 8, 8, 8] * 2  # at least two for each client
    assert len({id(drafter) for drafter in made}) == len(made)
    assert [(m.contestant, m.round) for m in found[:3]] == [("none", 0), ("suffix", 0), ("recycle", 0)]


def test_an_interrupt_leaves_whole_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    import outrider.bench.load as module

    calls = 0

    def stopped(*arguments: Any, **options: Any) -> Run:
        nonlocal calls
        calls += 1
        if calls == 2 + 2 + 2:  # after the warm-ups and a round, between the contestants of the next
            raise KeyboardInterrupt
        return drive(*arguments, **options)

    monkeypatch.setattr(module, "drive", stopped)
    kept: list[Measured] = []
    with pytest.raises(KeyboardInterrupt):
        run_loads(
            load_contestants(toy_llm(), ["suffix"]),
            encoded_prompts(),
            PARAMS,
            [Load(clients=2)],
            repeats=3,
            into=kept,
        )
    assert [(m.contestant, m.round) for m in kept] == [("none", 0), ("suffix", 0)]


def test_names_and_options_that_are_wrong_are_refused_before_anything_runs() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'suffix'"):
        load_contestants(toy_llm(), ["failing:sufix"])
    with pytest.raises(OptionError, match="max_nodes"):
        load_contestants(toy_llm(), ["failing:suffix"], {"suffix": {"max_nodes": 0}})
    with pytest.raises(OptionError, match="made already"):
        toy_llm().using(drafter=RandomTrees(1), drafter_options={"max_nodes": 2})
    wrong: Any = 5
    with pytest.raises(OptionError, match="name of one"):
        toy_llm().using(drafter=wrong)


def test_prompts_beyond_the_context_are_left_out_and_none_is_an_error() -> None:
    from types import SimpleNamespace

    llm: Any = SimpleNamespace(
        model=SimpleNamespace(
            tokenizer=SimpleNamespace(has_chat_template=False), target=SimpleNamespace(context_limit=5)
        ),
        encode=lambda text, chat: [0] * len(text),
    )
    suite = Suite("s", tuple(Prompt(t, "a", (t,)) for t in ("long one", "ab", "abcd")))
    assert [prompt.prompt.id for prompt in encoded(llm, suite)] == ["ab", "abcd"]
    with pytest.raises(PromptError, match="5"):
        encoded(llm, Suite("s", suite.prompts[:1]))


def answer(tokens: Sequence[int], times: Sequence[float], arrived: float = 0.0) -> Answer:
    """An answer whose chunks carry one token each."""
    from outrider.engine.result import Origin, Result, Speculation, Timing
    from outrider.types import Guarantee

    result = Result(
        text="",
        token_ids=tuple(tokens),
        origins=(Origin.PLAIN,) * len(tokens),
        finish_reason="length",
        prompt_tokens=1,
        seed=0,
        timing=Timing(0, 0, 0, 0, 0, 0),
        speculation=Speculation("d", "greedy", Guarantee.SAME_TOKENS, 1, 0, 0, 1),
    )
    return Answer(result, arrived, arrived, tuple((moment, 1) for moment in times))


def measured(
    name: str, round_: int, answers: Sequence[Answer], seconds: float, load: Load | None = None
) -> Measured:
    steps = Steps(4, 4, 1, 6, 8, 12, 2.0, 1.5, 0.25)
    prompts = tuple(EncodedPrompt(Prompt(str(i), "a", ("x",)), (1,)) for i in range(len(answers)))
    run = Run(tuple(answers), steps, seconds)
    return Measured(name, load or Load(clients=2), round_, prompts, run)


def test_ratios_pair_rounds_for_throughput_and_requests_for_speed() -> None:
    plain = [answer([1, 2, 3], [1, 2, 3]), answer([4, 5, 6], [1, 3, 5])]
    slow = [answer([1, 2, 3], [1, 3, 5]), answer([4, 5, 6], [1, 5, 9])]
    fast = [answer([1, 2, 3], [1, 1.5, 2]), answer([4, 5, 7], [1, 1.5, 2])]
    found = [
        measured("none", 0, plain, 6.0),
        measured("x", 0, fast, 3.0),
        measured("none", 1, slow, 12.0),
        measured("x", 1, fast, 4.0),
    ]
    none, x = load_document(found, Suite("s", ()), PARAMS, {}, running=16)["results"]
    assert none["throughput_over_plain"] == {"median": 1, "low": 1, "high": 1}
    assert x["throughput_over_plain"] == {"median": 2.5, "low": 2, "high": 3}
    # Request 0: 2 and 4 times plain decoding's speed, so 3; request 1: 4 and 8, so 6.
    assert x["speed_over_plain"] == {"median": 4.5, "low": 3, "high": 6}
    assert x["tokens_per_second"] == 12 / 7
    assert x["identical_to_plain"] == 0.5
    assert none["identical_to_plain"] == 1
    assert x["time_to_first_token"] == {"mean": 1, "p50": 1, "p90": 1, "p99": 1}
    assert x["gap"]["p50"] == 0.5
    assert (x["sequences_per_step"], x["mean_accepted_length"], x["tokens_per_step"]) == (1.5, 2, 3)
    assert (x["nodes_per_step"], x["undrafted_steps"]) == (2, 0.25)
    assert (x["outside_passes"], x["drafting"]) == (0.25, 0.125)
    assert (x["clients"], x["rate"], x["rounds"], x["requests"]) == (2, None, 2, 2)


def test_plain_decoding_under_load_is_compared_with_its_own_first_text() -> None:
    alone = [answer([1, 2, 3], [1, 2, 3])]
    beside = [answer([1, 2, 4], [1, 2, 3])]
    found = [measured("none", 0, alone, 3.0), measured("none", 0, beside, 3.0, Load(clients=8))]
    rows = load_document(found, Suite("s", ()), PARAMS, {}, running=16)["results"]
    assert [row["identical_to_plain"] for row in rows] == [1, 0]


def test_an_answer_of_one_chunk_has_no_time_per_token() -> None:
    short = [answer([1], [2.0], arrived=0.5)]
    assert short[0].time_to_first_token == 1.5
    row = load_document([measured("none", 0, short, 3.0)], Suite("s", ()), PARAMS, {}, running=16)["results"][
        0
    ]
    assert row["time_per_token"] == row["gap"] == {"mean": None, "p50": None, "p90": None, "p99": None}
    assert row["speed_over_plain"] is None
    assert spread([1.0, None, 3.0])["mean"] == 2


def test_requests_with_limits_of_their_own_have_the_same_ones_for_all_drafters_and_in_all_rounds() -> None:
    contestants = load_contestants(toy_llm(), ["suffix", "failing:suffix"])
    params = replace(PARAMS, ignore_eos=True)
    loads = [Load(clients=1), Load(clients=3)]
    measured = run_loads(contestants, encoded_prompts(), params, loads, repeats=2, count=12, least=5)
    tokens = {tuple(a.result.completion_tokens for a in m.run.answers) for m in measured}
    assert len(tokens) == 1
    [lengths] = tokens
    assert 5 <= min(lengths) < max(lengths) <= 24
    document = json.loads(
        json.dumps(load_document(measured, Suite("s", ()), params, {}, running=16, least=5))
    )
    assert (document["least_tokens"], document["sampling"]["max_tokens"]) == (5, 24)
    assert [row["identical_to_plain"] for row in document["results"]] == [1.0] * 6
    told = load_told(document, "load.json", "suffix")
    assert [trace.most for trace in told.rows[0].traces] == list(lengths)
    jobs = ByTraces(told, load_told(document, "load.json", "none")).jobs(loads[0])
    assert [(job.output, job.most) for job in jobs] == [(length, length) for length in lengths]


def test_another_seed_draws_other_limits_and_without_a_least_one_all_have_the_same() -> None:
    prompts = encoded_prompts() * 4

    def limits(seed: int, least: int | None) -> list[int | None]:
        return [prompt.most for prompt in unequal(prompts, least, replace(PARAMS, seed=seed))]

    assert limits(1, 5) == limits(1, 5) != limits(2, 5)
    assert limits(1, None) == [None] * 20
