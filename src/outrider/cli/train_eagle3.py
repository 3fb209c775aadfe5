"""`outrider train eagle3`: a head that reads the target's features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.cli import options
from outrider.cli import train_options as own
from outrider.cli.train_run import run
from outrider.errors import UnknownNameError

if TYPE_CHECKING:
    from outrider.train.start import Job
    from outrider.train.task import Outcome

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"draft_vocab": 4096, "inner": 768, "depth": 3, "length": 256, "batch": 4, "lr": 1e-3},
    "small": {"draft_vocab": 8192, "inner": None, "depth": 4, "length": 512, "batch": 8, "lr": 5e-4},
    "full": {"draft_vocab": 32000, "inner": None, "depth": 7, "length": 2048, "batch": 8, "lr": 1e-4},
}
"""Of EAGLE-3 heads: for an hour or two on a few processors, for a night, and as the paper has it on GPUs."""


def eagle3(
    target: options.Model,
    out: own.Out,
    preset: Annotated[
        str,
        typer.Option(
            "--preset",
            metavar="NAME",
            help=f"{', '.join(PRESETS)}: sizes and pace; options below override it.",
        ),
    ] = "tiny",
    depth: Annotated[
        int | None,
        typer.Option("--depth", min=1, metavar="N", help="Steps that the head is trained on its own output."),
    ] = None,
    draft_vocab: Annotated[
        int | None, typer.Option("--draft-vocab", min=2, metavar="N", help="Tokens that the head can name.")
    ] = None,
    inner: Annotated[
        int | None, typer.Option("--inner", min=1, metavar="N", help="Width of the head's feed-forward.")
    ] = None,
    feature_layers: Annotated[
        str | None,
        typer.Option(
            "--feature-layers", metavar="A,B,…", help="Layers whose outputs it reads (default: the usual)."
        ),
    ] = None,
    spelling: Annotated[
        str,
        typer.Option("--format", metavar="NAME", help="In whose files: specforge, sglang or speculators."),
    ] = "specforge",
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
    """Train an EAGLE-3 head for the target."""
    if preset not in PRESETS:
        raise UnknownNameError("preset", preset, PRESETS)
    given = own.chosen(
        lr=lr, batch=batch, length=length, epochs=epochs, depth=depth, draft_vocab=draft_vocab, inner=inner
    )
    sizes = {**PRESETS[preset], **given}
    features = own.layers_of(feature_layers)

    def start(job: Job) -> Outcome:
        from outrider.train.head_of import HeadShape
        from outrider.train.start import eagle3

        shape = HeadShape(sizes["draft_vocab"], sizes["inner"], features)
        return eagle3(job, shape, depth=sizes["depth"], spelling=spelling)

    pace: dict[str, Any] = {
        name: sizes[name] for name in ("lr", "batch", "length", "epochs") if name in sizes
    }
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
        use=f"--drafter eagle:{out}",
    )
