"""Drafters under load: rounds in which each answers the same requests, in an order that turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from outrider.bench.contestants import BASELINE
from outrider.bench.failing import PREFIX, FailingDrafter
from outrider.bench.run import WARM_UP_TOKENS, progress, turned
from outrider.bench.suites import Prompt, Suite
from outrider.bench.traffic import Answer, Load, Run, drive
from outrider.drafters import DrafterSpec, assemble, draft_model, parse_drafter
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
    spec: DrafterSpec
    model: LoadedModel | None
    """The model it drafts with, loaded once."""
    options: Mapping[str, Any]
    fails: bool
    """Every guess is spoilt."""

    def fresh(self) -> LLM:
        """Return the target with a new drafter."""
        target = self.llm.model.target
        made: Drafter = assemble(self.spec, target, self.model, self.options)
        return self.llm.using(drafter=FailingDrafter(made, target.vocab_size) if self.fails else made)


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt of the suite and its tokens."""

    prompt: Prompt
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """One contestant's run of one round under one load."""

    contestant: str
    load: Load
    round: int
    prompts: tuple[EncodedPrompt, ...]
    run: Run

    @property
    def answers(self) -> list[tuple[EncodedPrompt, Answer]]:
        """Each prompt with its answer."""
        return list(zip(self.prompts, self.run.answers, strict=True))


def drafter_of(name: str) -> str:
    """Return the drafter's own name: "suffix" for "suffix" and for "failing:suffix"."""
    return name.removeprefix(PREFIX)


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

    `options`: by the drafter's name without what stands after its colon. "failing:" before a drafter's name
    spoils its guesses. Models to draft with are loaded with `weights` and
    `activations` on `device`.
    """
    found = []
    for name in dict.fromkeys([BASELINE, *names]):
        spec = parse_drafter(drafter_of(name))
        model = draft_model(spec, llm.model, weights=weights, activations=activations, device=device)
        own = (options or {}).get(spec.name, {})
        found.append(LoadContestant(name, llm, spec, model, own, name.startswith(PREFIX)))
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
    running: int = Limits().running,
    notes: Console | None = None,
    into: list[Measured] | None = None,
) -> list[Measured]:
    """Measure every contestant under every load, `repeats` rounds; the first one must be plain decoding.

    In a round all contestants run the same list of `count` requests under one load before the next load
    comes, in an order that turns each time. `count` None means all prompts, and at least two for each
    client; where there are fewer prompts they come again. Requests that arrive at random do so at the same
    moments for all contestants, and at others in each round. `running`: most requests in one pass. Each run
    has an engine and a drafter of its own and stores no prefixes. What was measured is added to `into` once
    all contestants have answered, so that an interrupt leaves whole rounds.
    """
    assert contestants[0].name == BASELINE
    limits = Limits(running=running, waiting=10**9)
    measured: list[Measured] = [] if into is None else into
    for contestant in contestants:
        engine = contestant.fresh().engine(limits)
        drive(engine, [prompts[0].tokens], replace(params, max_tokens=WARM_UP_TOKENS), Load(clients=1))
    with progress(notes) as bar:
        task = bar.add_task("", total=repeats * len(loads) * len(contestants))
        for round_ in range(repeats):
            for place, load in enumerate(loads):
                listed = tuple(load.listed(prompts, count))
                runs: dict[str, Run] = {}
                for contestant in turned(contestants, round_ + place):
                    bar.update(task, description=f"{words(load)} · {contestant.name}")
                    engine = contestant.fresh().engine(limits)
                    tokens = [prompt.tokens for prompt in listed]
                    runs[contestant.name] = drive(engine, tokens, params, load, seed=round_)
                    bar.advance(task)
                measured += [
                    Measured(contestant.name, load, round_, listed, runs[contestant.name])
                    for contestant in contestants
                ]
    return measured


def words(load: Load) -> str:
    """Return a load in words: "4 clients", "2.5 requests/s"."""
    return counted(load.clients, "client") if load.clients is not None else f"{load.rate:g} requests/s"
