"""`outrider train medusa`: heads that guess from the target's last hidden state alone."""

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
    *,
    run: own.RunOptions,
) -> None:
    """Train Medusa heads for the target."""

    def start(job: Job) -> Outcome:
        from outrider.train.start import medusa

        return medusa(job, heads=heads, draft_vocab=draft_vocab, spelling=spelling)

    learn(start, target, out, run, run.recipe(), use=f"--drafter medusa:{out}")
