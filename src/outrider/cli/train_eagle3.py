"""`outrider train eagle3`: a head that reads the target's features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.cli import options
from outrider.cli import train_options as own
from outrider.cli.train_run import learn
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


@own.takes_run_options
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
    *,
    run: own.RunOptions,
) -> None:
    """Train an EAGLE-3 head for the target."""
    if preset not in PRESETS:
        raise UnknownNameError("preset", preset, PRESETS)
    usual = PRESETS[preset]
    sizes = {**usual, **own.chosen(depth=depth, draft_vocab=draft_vocab, inner=inner)}
    features = own.layers_of(feature_layers)

    def start(job: Job) -> Outcome:
        from outrider.train.head_of import HeadShape
        from outrider.train.start import eagle3

        shape = HeadShape(sizes["draft_vocab"], sizes["inner"], features)
        return eagle3(job, shape, depth=sizes["depth"], spelling=spelling)

    pace = {name: usual[name] for name in ("lr", "batch", "length")}
    learn(start, target, out, run, run.recipe(**pace), use=f"--drafter eagle:{out}")
