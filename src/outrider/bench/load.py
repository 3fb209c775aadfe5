"""Drafters under load: rounds in which each answers the same requests, in an order that turns."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from outrider.bench.contestants import BASELINE
from outrider.bench.failing import FailingDrafter
from outrider.bench.load_names import LoadName, parse_load_name
from outrider.bench.run import WARM_UP_TOKENS, progress, turned
from outrider.bench.suites import Prompt, Suite
from outrider.bench.traces import Trace, TracingDrafter
from outrider.bench.traffic import Answer, Load, Run, drive
from outrider.draft_heads import Ready
from outrider.drafters import assemble, draft_model
from outrider.engine.engine import DEFAULT_BUDGET
from outrider.engine.scheduler import Limits
from outrider.errors import PromptError, counted
from outrider.loop.draft.base import Drafter
from outrider.models.base import LoadedModel
from outrider.sampling.params import SamplingParams

if TYPE_CHECKING:
    from outrider.llm import LLM


@dataclass(frozen=True, slots=True)
class LoadContestant:
    """The target with one drafter, made anew for each run: nothing it remembers goes from one to the next."""

    name: str
    llm: LLM
    parsed: LoadName
    model: LoadedModel | Ready | None
    """The model or the head it drafts with, loaded once."""
    options: Mapping[str, Any]

    def fresh(self) -> tuple[LLM, TracingDrafter]:
        """Return the target with a new drafter, and the drafter, which notes what it drafts."""
        target = self.llm.model
        made: Drafter = assemble(self.parsed.spec, target, self.model, self.options)
        traced = TracingDrafter(FailingDrafter(made, target.target.vocab_size) if self.parsed.fails else made)
        nodes = self.parsed.nodes
        return self.llm.using(
            drafter=traced, budget=nodes, fill_budget=None if nodes is None else True
        ), traced


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt of the suite and its tokens."""

    prompt: Prompt
    tokens: tuple[int, ...]
    most: int | None = None
    """Tokens that it may be answered with; None: as many as any other."""


@dataclass(frozen=True, slots=True)
class Noted:
    """What was noted of a run's drafts."""

    budget: int
    """Most nodes of one draft."""
    free: bool
    """Nodes counted as free."""
    asks: int
    answered: int
    """Asks that brought a draft of one node at least."""
    seconds: float
    """Time that all drafts took to make and to learn from."""
    traces: tuple[Trace, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """One contestant's run of one round under one load."""

    contestant: str
    load: Load
    round: int
    prompts: tuple[EncodedPrompt, ...]
    run: Run
    noted: Noted | None = None
    """None where nothing was noted."""

    @property
    def answers(self) -> list[tuple[EncodedPrompt, Answer]]:
        """Each prompt with its answer."""
        return list(zip(self.prompts, self.run.answers, strict=True))


def load_contestants(
    llm: LLM,
    names: Sequence[str],
    options: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    weights: str = "auto",
    activations: str = "auto",
    device: str = "auto",
) -> list[LoadContestant]:
    """Return plain decoding first, then each drafter once; errors as from `build_drafter`.

    `names`: as `parse_load_name` takes them. `options`: by the drafter's name without what stands after its
    colon. Models to draft with are loaded with `weights` and `activations` on
    `device`, once each.
    """
    found = []
    models: dict[str | None, LoadedModel | Ready | None] = {}
    for name in dict.fromkeys([BASELINE, *names]):
        parsed = parse_load_name(name)
        if parsed.spec.model not in models:
            models[parsed.spec.model] = draft_model(
                parsed.spec, llm.model, weights=weights, activations=activations, device=device
            )
        own = (options or {}).get(parsed.spec.name, {})
        found.append(LoadContestant(name, llm, parsed, models[parsed.spec.model], own))
        found[-1].fresh()  # options that are wrong are found before anything runs
    return found


def encoded(
    llm: LLM, suite: Suite, *, chat: bool | None = None, notes: Console | None = None
) -> list[EncodedPrompt]:
    """Return the first turn of each prompt in tokens; those that do not fit into the context are left out.

    `chat` None means: if the model has a chat template. PromptError where none is left.
    """
    templated = llm.model.tokenizer.has_chat_template if chat is None else chat
    room = llm.model.target.context_limit - 1
    found = []
    for prompt in suite.prompts:
        tokens = llm.encode(prompt.turns[0], chat=templated)
        if len(tokens) <= room:
            found.append(EncodedPrompt(prompt, tuple(tokens)))
        elif notes is not None:
            notes.print(f"prompt {prompt.id} is left out: {counted(len(tokens), 'token')}, room for {room}")
    if not found:
        raise PromptError(
            f"no prompt of the suite fits into the model's context of {counted(room + 1, 'token')}"
        )
    return found


def run_loads(
    contestants: Sequence[LoadContestant],
    prompts: Sequence[EncodedPrompt],
    params: SamplingParams,
    loads: Sequence[Load],
    *,
    repeats: int = 1,
    count: int | None = None,
    least: int | None = None,
    running: int = Limits().running,
    notes: Console | None = None,
    into: list[Measured] | None = None,
) -> list[Measured]:
    """Measure every contestant under every load, `repeats` rounds; the first one must be plain decoding.

    In a round all contestants run the same list of `count` requests under one load before the next load
    comes, in an order that turns each time. `count` None means all prompts, and at least two for each
    client; where there are fewer prompts they come again. With `least` each request may be answered with a
    number of tokens of its own, from `least` to `params.max_tokens`, that follows from its place in the list
    and from `params.seed`: the same for all contestants and in all rounds. Requests that arrive at random do
    so at the same moments for all contestants, and at others in each round. `running`: most requests in one
    pass. Each run has an engine and a drafter of its own and stores no prefixes. What was measured is added
    to `into` once all contestants have answered, so that an interrupt leaves whole rounds.
    """
    assert contestants[0].name == BASELINE
    limits = Limits(running=running, waiting=10**9)
    measured: list[Measured] = [] if into is None else into
    for contestant in contestants:
        engine = contestant.fresh()[0].engine(limits)
        drive(engine, [prompts[0].tokens], replace(params, max_tokens=WARM_UP_TOKENS), Load(clients=1))
    with progress(notes) as bar:
        task = bar.add_task("", total=repeats * len(loads) * len(contestants))
        for round_ in range(repeats):
            for place, load in enumerate(loads):
                listed = unequal(load.listed(prompts, count), least, params)
                runs: dict[str, Measured] = {}
                for contestant in turned(contestants, round_ + place):
                    bar.update(task, description=f"{words(load)} · {contestant.name}")
                    llm, drafter = contestant.fresh()
                    tokens = [prompt.tokens for prompt in listed]
                    most = [prompt.most for prompt in listed if prompt.most is not None] or None
                    run = drive(llm.engine(limits), tokens, params, load, most=most, seed=round_)
                    noted = _noted(llm, drafter, run, listed)
                    runs[contestant.name] = Measured(contestant.name, load, round_, listed, run, noted)
                    bar.advance(task)
                measured += [runs[contestant.name] for contestant in contestants]
    return measured


def unequal(
    prompts: Sequence[EncodedPrompt], least: int | None, params: SamplingParams
) -> tuple[EncodedPrompt, ...]:
    """Return the prompts, each with a limit of its own that the seed draws; none where `least` is None."""
    if least is None:
        return tuple(prompts)
    most, chance = params.max_tokens, random.Random(params.seed)
    assert most is not None, "limits lie between two numbers"
    return tuple(replace(prompt, most=chance.randint(least, most)) for prompt in prompts)


def _noted(llm: LLM, drafter: TracingDrafter, run: Run, prompts: Sequence[EncodedPrompt]) -> Noted:
    traced = drafter.traces([answer.result.token_ids for answer in run.answers])
    traces = [replace(trace, most=prompt.most) for trace, prompt in zip(traced, prompts, strict=True)]
    return Noted(
        DEFAULT_BUDGET if llm.budget is None else llm.budget,
        not llm.weighs_costs,
        drafter.asks,
        drafter.answered,
        drafter.seconds,
        tuple(traces),
    )


def words(load: Load) -> str:
    """Return a load in words: "4 clients", "2.5 requests/s"."""
    return counted(load.clients, "client") if load.clients is not None else f"{load.rate:g} requests/s"
