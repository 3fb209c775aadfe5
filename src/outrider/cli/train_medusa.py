"""`outrider train medusa`: heads that guess from the target's last hidden state alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from outrider.cli import options
from outrider.cli import train_options as own
from outrider.cli.train_run import run

if TYPE_CHECKING:
    from outrider.train.start import Job
    from outrider.train.task import Outcome


def medusa(
    target: options.Model,
    out: own.Out,
    heads: Annotated[
        int, typer.Option("--heads", min=1, metavar="N", help="Heads: tokens that are guessed at once.")
    ] = 4,
    draft_vocab: Annotated[
        int | None,
        typer.Option("--draft-vocab", min=2, metavar="N", help="Tokens that heads can name (default: all)."),
    ] = None,
    spelling: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="In whose files: medusa, medusa-pt, or medusa-vllm (which a draft vocabulary needs).",
        ),
    ] = "medusa-vllm",
    data: own.Data = None,
    count: own.Count = None,
    temperature: own.Temperatures = "0,0.7,1",
    max_tokens: own.AnswerTokens = 256,
    running: own.Running = 16,
    minutes: own.Minutes = None,
    epochs: own.Epochs = None,
    lr: own.LearningRate = None,
    batch: own.Batch = None,
    length: own.Length = None,
    precision: own.Precision = "fp32",
    top: own.Top = 64,
    buffer: own.Buffer = 2.0,
    judge_every: own.JudgeEvery = 200,
    seed: own.Seed = 0,
    resume: own.Resume = False,
    weights: options.Weights = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Train Medusa heads for the target."""
    pace = own.chosen(lr=lr, batch=batch, length=length, epochs=epochs)

    def start(job: Job) -> Outcome:
        from outrider.train.start import medusa

        return medusa(job, heads=heads, draft_vocab=draft_vocab, spelling=spelling)

    run(
        start,
        target,
        out,
        recipe={**pace, "minutes": minutes, "precision": precision, "seed": seed, "judge_every": judge_every},
        data={"given": data, "count": count, "running": running},
        writing=(temperature, max_tokens, seed),
        reading=(top, buffer),
        resume=resume,
        loading={"weights": weights, "device": device, "threads": threads},
        as_json=as_json,
        use=f"--drafter medusa:{out}",
    )
