"""`outrider train distill`: a small model out of the target's own layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from outrider.cli import options
from outrider.cli import train_options as own
from outrider.cli.train_run import learn

if TYPE_CHECKING:
    from outrider.train.start import Job
    from outrider.train.task import Outcome


@own.takes_run_options
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
    *,
    run: own.RunOptions,
) -> None:
    """Train a small model made of some of the target's own layers; draft with it as lm:DIR."""

    def start(job: Job) -> Outcome:
        from outrider.train.start import distill

        return distill(job, layers=layers, loss=loss, on_policy=on_policy)

    learn(start, target, out, run, run.recipe(lr=3e-4), use=f"--drafter lm:{out}")
