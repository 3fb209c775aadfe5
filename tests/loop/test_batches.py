"""Requests with different options in one batch: each row under its own."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import Tensor

from conftest import VOCAB, RandomTrees, plain_tokens, run, toy_model
from outrider.engine.engine import Engine
from outrider.engine.scheduler import Limits
from outrider.errors import CapabilityError
from outrider.loop.draft.lm import ModelDrafter
from outrider.models.toy import ToyCache, ToyTarget
from outrider.registry import DRAFTERS
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree

PROMPTS = [[0, 1, 2], [3], [4, 5, 4, 5, 4, 5, 4], [7, 6, 5, 4]]
OPTIONS = [
    SamplingParams(seed=11, max_tokens=40),
    SamplingParams(seed=12, max_tokens=25, temperature=1.0),
    SamplingParams(seed=13, max_tokens=33, temperature=1.6, top_k=3),
    SamplingParams(seed=12, max_tokens=40, temperature=0.7, top_p=0.8),
]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("drafter", [*DRAFTERS, "random trees"])
def test_every_request_of_a_batch_keeps_its_own_options(drafter: str, order: int) -> None:
    target = ToyTarget(VOCAB, seed=4)
    kind = None if drafter == "random trees" else DRAFTERS.load(drafter)
    model = toy_model(ToyTarget(VOCAB, seed=9, like=target, share=Fraction(2, 3)))
    made = RandomTrees(3) if kind is None else kind.build(target, model if kind.takes_model else None, {})
    engine = Engine(toy_model(target), made, drafter_name=drafter)
    pairs = list(zip(PROMPTS, OPTIONS, strict=True))[::order]
    requests = [engine.submit(prompt, params) for prompt, params in pairs]
    while engine.busy:
        engine.step()
    for (prompt, params), request in zip(pairs, requests, strict=True):
        assert request.result is not None
        assert list(request.result.token_ids) == plain_tokens(target, prompt, params, params.max_tokens or 0)


@pytest.mark.parametrize("rule", ["coupled", "rejection"])
def test_a_model_drafter_draws_each_row_of_a_batch_under_its_own_options(rule: str) -> None:
    """A draft model equal to the target is always right, unless it draws under another request's options."""
    target = ToyTarget(VOCAB, seed=1)
    engine = Engine(toy_model(target), ModelDrafter(target, VOCAB), drafter_name="lm", rule=rule, budget=4)
    requests = [engine.submit(p, o) for p, o in zip(PROMPTS, OPTIONS, strict=True) if o.temperature > 0]
    while engine.busy:
        engine.step()
    for request in requests:
        assert request.result is not None
        made = request.result.speculation
        assert made.drafted > 0
        assert made.accepted == made.drafted


@pytest.mark.parametrize("rule", ["coupled", "rejection"])
def test_a_model_drafter_draws_each_row_under_its_own_path_where_others_have_stopped(rule: str) -> None:
    """Requests near their end draft less, and leave the common draft passes before the others do."""
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    engine = Engine(toy_model(target), ModelDrafter(target, VOCAB), drafter_name="lm", rule=rule, budget=6)
    requests = [
        engine.submit(
            prompt, SamplingParams(temperature=1.0, seed=seed, max_tokens=3 + 9 * seed, frequency_penalty=2)
        )
        for seed, prompt in enumerate(PROMPTS)
    ]
    while engine.busy:
        engine.step()
    for request in requests:
        assert request.result is not None
        made = request.result.speculation
        assert made.accepted == made.drafted > 0


@pytest.mark.parametrize("rule", ["greedy", "coupled", "rejection"])
def test_a_request_that_reads_its_prompt_leaves_the_drafts_to_the_others(rule: str) -> None:
    """A draft of another request's would be exact all the same, and turned down."""
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    engine = Engine(toy_model(target), ModelDrafter(target, VOCAB), drafter_name="lm", rule=rule, budget=4)
    params = SamplingParams(temperature=0.0 if rule == "greedy" else 1.0, seed=3, max_tokens=20)
    requests = [engine.submit(prompt, params) for prompt in ([0, 1] * 600, *PROMPTS)]
    while engine.busy:
        engine.step()
    for request in requests:
        assert request.result is not None
        made = request.result.speculation
        assert made.accepted == made.drafted == 16


def test_a_drafter_that_goes_beyond_its_budget_is_found_at_once() -> None:
    """Its draft would reach past the length asked for, and past the context."""

    class Greedy(RandomTrees):
        def propose(self, asks):  # type: ignore[no-untyped-def]
            return [DraftTree.chain([1] * (ask.budget + 1)) for ask in asks]

    with pytest.raises(AssertionError, match="random kept to its budget"):
        run(toy_model(ToyTarget(VOCAB, seed=1)), Greedy(), [[0]], SamplingParams(max_tokens=9), budget=3)


def test_max_tokens_beyond_the_context_end_with_it() -> None:
    target = ToyTarget(VOCAB, seed=1, context_limit=20)
    params = SamplingParams(temperature=1.0, seed=2, max_tokens=100)
    for drafter in (RandomTrees(1), ModelDrafter(target, VOCAB)):
        [result] = run(toy_model(target), drafter, [[0, 1, 2]], params)
        assert (result.finish_reason, result.completion_tokens) == ("length", 17)


@pytest.mark.parametrize("length", [256, 257, 258, 513, 700])
def test_a_model_drafter_reads_a_long_prompt_in_pieces_and_still_agrees(length: int) -> None:
    target = ToyTarget(VOCAB, seed=1)
    prompt = [(index * index + index // 7) % VOCAB for index in range(length)]
    params = SamplingParams(temperature=1.0, seed=3, max_tokens=20)
    [result] = run(toy_model(target), ModelDrafter(target, VOCAB), [prompt], params, budget=4)
    assert list(result.token_ids) == plain_tokens(target, prompt, params, 20)
    assert result.speculation.accepted == result.speculation.drafted > 0


class Padded:
    """A target whose output layer is padded to more rows than there are tokens, all with one logit."""

    can_branch = True
    can_capture = False

    def __init__(self, inner: ToyTarget, rows: int, logit: float = -1e9) -> None:
        self.inner, self.vocab_size, self.context_limit = inner, rows, inner.context_limit
        self.logit = logit

    def new_cache(self) -> ToyCache:
        return self.inner.new_cache()

    def forward(self, batch, caches) -> Tensor:  # type: ignore[no-untyped-def]
        logits = self.inner.forward(batch, caches)
        return torch.nn.functional.pad(logits, (0, self.vocab_size - logits.shape[1]), value=self.logit)


@pytest.mark.parametrize(("target_rows", "draft_rows"), [(VOCAB, VOCAB + 5), (VOCAB + 5, VOCAB)])
@pytest.mark.parametrize("rule", ["coupled", "rejection"])
def test_a_draft_model_of_another_padding_drafts_as_if_it_had_the_target_s(
    target_rows: int, draft_rows: int, rule: str
) -> None:
    """Rows that stand for no token may hold anything: they are never drafted."""
    inner = ToyTarget(VOCAB, seed=1)
    drafter = ModelDrafter(Padded(inner, draft_rows, 1e3 if draft_rows > target_rows else -1e9), target_rows)
    model = toy_model(inner)
    model = type(model)("toy", Padded(inner, target_rows), model.tokenizer)
    params = SamplingParams(temperature=1.0, seed=3, max_tokens=40)
    [result] = run(model, drafter, [[0, 1, 2]], params, rule=rule, budget=4)
    assert result.speculation.accepted == result.speculation.drafted
    assert result.speculation.passes == 40 / 5


def test_what_a_drafter_opened_is_closed_once_however_a_request_ends() -> None:
    class Counting(RandomTrees):
        opened = closed = 0

        def open(self, prompt, tenant=""):  # type: ignore[no-untyped-def]
            self.opened += 1
            return super().open(prompt)

        def close(self, state) -> None:  # type: ignore[no-untyped-def]
            self.closed += 1
            super().close(state)

    drafter = Counting(1)
    engine = Engine(
        toy_model(ToyTarget(VOCAB, seed=1), (3,)), drafter, drafter_name="counting", limits=Limits(running=3)
    )
    params = SamplingParams(temperature=1.0, seed=1, max_tokens=9)
    requests = [engine.submit(prompt, params) for prompt in PROMPTS * 2]
    engine.step()
    engine.abort(requests[0])
    engine.abort(requests[-1])
    while engine.busy:
        engine.step()
    assert drafter.opened == drafter.closed == len(requests) - 1  # the last one never ran


def test_no_more_requests_run_together_than_allowed_and_the_first_comes_first() -> None:
    class Watched(ToyTarget):
        widths: list[int] = []  # noqa: RUF012

        def forward(self, batch, caches):  # type: ignore[no-untyped-def]
            self.widths.append(len(caches))
            return super().forward(batch, caches)

    target = Watched(VOCAB, seed=1)
    engine = Engine(toy_model(target), RandomTrees(1), drafter_name="random", limits=Limits(running=2))
    params = SamplingParams(max_tokens=5)
    requests = [engine.submit(prompt, params) for prompt in PROMPTS]
    ended = []
    while engine.busy:
        ended += [event.request for event in engine.step() if event.chunk.result]
    assert max(target.widths) == 2
    assert {id(r) for r in ended[:2]} == {id(r) for r in requests[:2]}


def test_a_cache_that_cannot_be_rewound_is_refused() -> None:
    class Stiff(ToyCache):
        can_rewind = False

    class Recurrent(ToyTarget):
        def new_cache(self) -> ToyCache:
            return Stiff()

    engine = Engine(toy_model(Recurrent(VOCAB)), RandomTrees(1), drafter_name="random")
    with pytest.raises(CapabilityError, match="cannot be rewound"):
        engine.submit([1], SamplingParams())
