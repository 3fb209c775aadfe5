"""`outrider train distill`: a small model out of the target's own layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from outrider.cli import options
from outrider.cli import train_options as own
from outrider.cli.train_run import run

if TYPE_CHECKING:
    from outrider.train.start import Job
    from outrider.train.task import Outcome


def distill(
    target: options.Model,
    out: own.Out,
    layers: Annotated[
        str,
        typer.Option(
            "--layers", metavar="N|A,B,…", help="Layers of the target to keep: their numbers, or how many."
        ),
    ] = "6",
    loss: Annotated[
        str, typer.Option("--loss", metavar="NAME", help="fkl, rkl (KL either way) or tv (total variation).")
    ] = "fkl",
    on_policy: Annotated[
        float,
        typer.Option(
            "--on-policy", min=0, max=1, metavar="P", help="Share of texts that the draft itself writes."
        ),
    ] = 0.0,
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
    """Train a small model made of some of the target's own layers; draft with it as lm:DIR."""
    given = own.chosen(lr=lr, batch=batch, length=length, epochs=epochs)

    def start(job: Job) -> Outcome:
        from outrider.train.start import distill

        return distill(job, layers=layers, loss=loss, on_policy=on_policy)

    run(
        start,
        target,
        out,
        recipe={
            "lr": 3e-4,
            **given,
            "minutes": minutes,
            "precision": precision,
            "seed": seed,
            "judge_every": judge_every,
        },
        data={"given": data, "count": count, "running": running},
        writing=(temperature, max_tokens, seed),
        reading=(top, buffer),
        resume=resume,
        loading={"weights": weights, "device": device, "threads": threads},
        as_json=as_json,
        use=f"--drafter lm:{out}",
    )
