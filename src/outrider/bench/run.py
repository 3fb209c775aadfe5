"""Runs contestants on a suite, prompt by prompt, each compared with plain decoding of the same prompt."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from outrider.bench.contestants import BASELINE, Contestant
from outrider.bench.suites import Prompt, Suite
from outrider.engine.result import Result
from outrider.errors import OptionError, PromptError, counted
from outrider.sampling.params import SamplingParams

if TYPE_CHECKING:
    from outrider.llm import LLM

WARM_UP_TOKENS = 16

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One contestant on one turn of one prompt, beside plain decoding of the same turn.

    `seconds` is wall time around the whole request.
    """

    contestant: str
    prompt: Prompt
    turn: int
    result: Result
    plain: Result
    seconds: float

    @property
    def identical_to_plain(self) -> bool:
        """True when every token is the one that plain decoding emitted."""
        return self.result.token_ids == self.plain.token_ids

    @property
    def speedup(self) -> float | None:
        """Decode speed over plain decoding's; None where either ended with its first tokens."""
        own, plain = (result.timing.decode_tokens_per_second for result in (self.result, self.plain))
        return own / plain if own and plain else None


def run_suite(
    llm: LLM,
    contestants: Sequence[Contestant],
    suite: Suite,
    params: SamplingParams,
    *,
    chat: bool | None = None,
    turns: bool = False,
    notes: Console | None = None,
    into: list[Measurement] | None = None,
) -> list[Measurement]:
    """Measure every contestant on every prompt; the first one must be plain decoding.

    All contestants answer a prompt before the next one comes, in an order that turns by one each time, so
    that drift of the machine hits all alike. `chat` None means: if the model has a chat template. With
    `turns`, later turns are asked too, after plain decoding's own answers. Prompts that do not fit into the
    context are left out. Progress and notices go to `notes`. What was measured is added to `into` prompt by
    prompt, so that an interrupt leaves the prompts before it.
    """
    assert contestants[0].name == BASELINE
    templated = llm.model.tokenizer.has_chat_template if chat is None else chat
    if turns and not templated:
        raise OptionError("--turns needs a chat template to put the turns together; drop it or --no-chat")
    room = llm.model.target.context_limit - 1
    measurements: list[Measurement] = [] if into is None else into
    total = sum(len(p.turns) if turns else 1 for p in suite.prompts) * len(contestants)
    with progress(notes) as bar:
        task = bar.add_task("", total=total)
        asked = 0
        for prompt in suite.prompts:
            messages: list[dict[str, Any]] = []
            for turn, text in enumerate(prompt.turns if turns else prompt.turns[:1]):
                messages.append({"role": "user", "content": text})
                ids = llm.encode(messages if templated else text, chat=templated)
                if len(ids) > room:
                    if notes is not None:
                        notes.print(
                            f"prompt {prompt.id} is left out: {counted(len(ids), 'token')}, room for {room}"
                        )
                    bar.advance(task, (len(prompt.turns) - turn if turns else 1) * len(contestants))
                    break
                if not asked:
                    _warm_up(contestants, ids, params)
                answers: dict[str, tuple[Result, float]] = {}
                for contestant in turned(contestants, asked):
                    bar.update(task, description=f"{prompt.category} · {contestant.name}")
                    started = time.perf_counter()
                    result = contestant.generate(ids, params)
                    answers[contestant.name] = result, time.perf_counter() - started
                    bar.advance(task)
                asked += 1
                plain = answers[BASELINE][0]
                messages.append({"role": "assistant", "content": plain.text})
                for contestant in contestants:
                    result, seconds = answers[contestant.name]
                    measurements.append(Measurement(contestant.name, prompt, turn, result, plain, seconds))
    if not measurements:
        raise PromptError(
            f"no prompt of the suite fits into the model's context of {counted(room + 1, 'token')}"
        )
    return measurements


def _warm_up(contestants: Sequence[Contestant], ids: list[int], params: SamplingParams) -> None:
    for contestant in contestants:
        contestant.generate(ids, replace(params, max_tokens=WARM_UP_TOKENS))


def turned(contestants: Sequence[Item], by: int) -> Iterator[Item]:
    """Yield all contestants, beginning with another one each time `by` grows by one."""
    turn = by % len(contestants)
    yield from contestants[turn:]
    yield from contestants[:turn]


def progress(notes: Console | None) -> Progress:
    """Return a progress bar on `notes`, shown on a terminal only."""
    visible = notes is not None and notes.is_terminal
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=notes, transient=True, disable=not visible)
