"""Options that the commands under `outrider train` share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from outrider.cli import options
from outrider.errors import OptionError

if TYPE_CHECKING:
    from outrider.train.candidate import Writing

OWN_COUNT = 1000
"""Texts where the target writes the prompts as well and nothing is said."""

Out = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", help="Where the result and all of the run go: a new directory."),
]
Prompts = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="FILE",
        help="Prompts: lines of a .txt file, or JSON lines (messages, Spec-Bench's turns, or prompt). "
        "Without any the target writes its own.",
    ),
]
Data = Annotated[
    list[Path] | None,
    typer.Option(
        "--data",
        metavar="DIR|FILE",
        help="A directory of `outrider train data` (repeat it for several), or a file of prompts to answer "
        "first. Without any the target writes prompts, too.",
    ),
]
Count = Annotated[
    int | None,
    typer.Option(
        "--count", min=1, metavar="N", help="Texts (default: one for each prompt, 1000 without prompts)."
    ),
]
Temperatures = Annotated[
    str,
    typer.Option("--temperature", metavar="T,T,…", help="Temperatures of the answers, taken in turn."),
]
AnswerTokens = Annotated[
    int, typer.Option("--max-tokens", min=2, metavar="N", help="Most tokens of an answer.")
]
Running = Annotated[
    int, typer.Option("--running", min=1, metavar="N", help="Texts that are written at once.")
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, metavar="S", help="The same seed gives the same texts and result.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run that is in --out.")]
Minutes = Annotated[
    float | None,
    typer.Option("--minutes", metavar="M", help="Learn for so long at most; the steps are planned by it."),
]
Epochs = Annotated[
    float | None, typer.Option("--epochs", metavar="E", help="Times that each text is learned from at most.")
]
LearningRate = Annotated[float | None, typer.Option("--lr", metavar="X", help="Highest learning rate.")]
Batch = Annotated[int | None, typer.Option("--batch", min=1, metavar="N", help="Texts of one step.")]
Length = Annotated[
    int | None,
    typer.Option(
        "--length", min=8, metavar="N", help="Most tokens of a text; the end of a longer one is taken."
    ),
]
Precision = Annotated[
    str, typer.Option("--precision", metavar="NAME", help="fp32, or bf16 for forward and backward passes.")
]
Top = Annotated[
    int,
    typer.Option("--top", min=1, metavar="K", help="Likeliest tokens of the target's laws that are learned."),
]
Buffer = Annotated[
    float,
    typer.Option(
        "--buffer", min=0, metavar="GB", help="Disk for what the target says; what is beyond is run again."
    ),
]
JudgeEvery = Annotated[
    int, typer.Option("--judge-every", min=1, metavar="N", help="Steps between looks at held-out texts.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of every command that trains, in the order in which `--help` shows them."""

    data: Data = None
    count: Count = None
    temperature: Temperatures = "0,0.7,1"
    max_tokens: AnswerTokens = 256
    running: Running = 16
    minutes: Minutes = None
    epochs: Epochs = None
    lr: LearningRate = None
    batch: Batch = None
    length: Length = None
    precision: Precision = "fp32"
    top: Top = 64
    buffer: Buffer = 2.0
    judge_every: JudgeEvery = 200
    seed: Seed = 0
    resume: Resume = False
    weights: options.Weights = "auto"
    device: options.Device = "auto"
    threads: options.Threads = None
    as_json: options.Json = False

    def recipe(self, **usual: Any) -> dict[str, Any]:
        """Return what makes a recipe: what was given, and `usual` in place of what was not."""
        pace = chosen(lr=self.lr, batch=self.batch, length=self.length, epochs=self.epochs)
        if self.minutes is not None:
            usual.setdefault("epochs", 1000.0)  # the time ends it
        said = {"minutes": self.minutes, "precision": self.precision, "seed": self.seed}
        return {**usual, **pace, **said, "judge_every": self.judge_every}


def takes_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of `RunOptions`, in place of its last parameter `run`."""
    own = inspect.signature(command, eval_str=True).parameters
    assert [*own][-1] == "run"
    kinds = get_type_hints(RunOptions, include_extras=True)
    shared = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=kinds[each.name]
        )
        for each in fields(RunOptions)
    ]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        run = RunOptions(**{each.name: given.pop(each.name) for each in shared})
        command(**given, run=run)

    parameters = [*own.values()][:-1] + shared
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_options


def writing_of(temperatures: str, max_tokens: int, seed: int) -> Writing:
    """Return how texts are written; OptionError for temperatures that are no numbers from 0 up."""
    from outrider.train.candidate import Writing

    try:
        found = tuple(float(part) for part in temperatures.split(","))
    except ValueError:
        found = (-1.0,)
    if not all(0 <= value < float("inf") for value in found):
        raise OptionError(f"--temperature {temperatures!r}: write numbers from 0 up, as in 0,0.7,1")
    return Writing(temperatures=found, max_tokens=max_tokens, seed=seed)


def chosen(**options: Any) -> dict[str, Any]:
    """Return the options that were given, for those that a preset fills in otherwise."""
    return {name: value for name, value in options.items() if value is not None}


def layers_of(written: str | None) -> tuple[int, ...] | None:
    """Return layers written with commas; OptionError for what is no number."""
    if written is None:
        return None
    try:
        return tuple(int(part) for part in written.split(","))
    except ValueError:
        raise OptionError(f"--feature-layers {written!r}: write layers as 1,14,26") from None
