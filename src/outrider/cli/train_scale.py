"""`outrider train scale`: which size of head pays on this machine, foretold from short runs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.cli import options, planning
from outrider.cli import train_options as own
from outrider.cli.interrupts import INTERRUPTED
from outrider.cli.train_eagle3 import PRESETS
from outrider.cli.train_run import ready_job
from outrider.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from outrider.planner.forecast import Costs
    from outrider.train.sizing import ShortRun, Size
    from outrider.train.start import Job

MINUTES = 30.0
"""Of all short runs together where nothing is said."""
EXPLICIT = re.compile(r"([1-9]\d*)x([1-9]\d*)")


@own.takes_run_options
def scale(
    target: options.Model,
    out: own.Out,
    sizes: Annotated[
        str,
        typer.Option(
            "--sizes",
            metavar="A,B,…",
            help=f"Heads to try: {', '.join(PRESETS)}, or a draft vocabulary and a width, as in 4096x768.",
        ),
    ] = "tiny,small",
    depth: Annotated[
        int | None,
        typer.Option("--depth", min=1, metavar="N", help="Steps that heads are trained on their own output."),
    ] = None,
    context: Annotated[
        int, typer.Option("--context", min=0, metavar="N", help="Cached tokens while passes are timed.")
    ] = 256,
    *,
    run: own.RunOptions,
) -> None:
    """Train EAGLE-3 heads of several sizes for a short time, and foretell which pays on this machine.

    --minutes is the time of all runs together (default: 30); --epochs counts for the longest of each size.
    """
    chosen = sizes_of(sizes)
    if run.minutes is None and run.epochs is None:
        run = replace(run, minutes=MINUTES)
    pace: dict[str, Any] = {name: min(one[name] for one in chosen.values()) for name in ("length", "batch")}
    lowest = min(one["lr"] for one in chosen.values())
    deep = depth or min(one["depth"] for one in chosen.values())

    from outrider.train.group import check_alone

    check_alone("outrider train scale")
    with ready_job(target, out, run, run.recipe(lr=lowest, **pace)) as job:
        room = job.llm.model.target.context_limit - 64
        if context > room:
            raise OptionError(f"beside the passes that are timed there is room for --context {max(0, room)}")
        found = _runs(job, {name: {**one, "lr": run.lr or one["lr"]} for name, one in chosen.items()}, deep)
        if found is not None:
            _tell(job, found, context, run)
    if found is None:
        raise typer.Exit(INTERRUPTED)


def sizes_of(written: str) -> dict[str, dict[str, Any]]:
    """Return sizes and pace of heads by name; OptionError where none is named, or one is no name or size."""
    from outrider.cli.bench_out import listed_names

    found: dict[str, dict[str, Any]] = {}
    for name in listed_names(written):
        explicit = EXPLICIT.fullmatch(name)
        if explicit is not None:
            vocab, inner = map(int, explicit.groups())
            found[name] = {**PRESETS["tiny"], "draft_vocab": max(2, vocab), "inner": inner}
        elif name in PRESETS:
            found[name] = PRESETS[name]
        else:
            raise UnknownNameError("size", name, [*PRESETS, "4096x768 (draft vocabulary, width)"])
    if not found:
        raise OptionError("--sizes names no size; write one or several, as in tiny,small")
    return found


def _runs(job: Job, chosen: dict[str, dict[str, Any]], depth: int) -> list[ShortRun] | None:
    """Return what the short runs gave; None where someone asked to stop."""
    from outrider.cli import terminal
    from outrider.cli.train_progress import accepted, duration
    from outrider.train.head_of import HeadShape
    from outrider.train.sizing import Size, short_runs

    sizes: list[Size] = [
        Size(name, HeadShape(one["draft_vocab"], one["inner"]), one["lr"]) for name, one in chosen.items()
    ]
    notes = terminal.console(stderr=True)
    found: list[ShortRun] = []
    for done in short_runs(job, sizes, depth=depth):
        if done is None:
            notes.print("stopped; continue with the same command and --resume")
            return None
        found.append(done)
        said = f"{done.point.tokens:,} tokens in {duration(done.seconds)}"
        notes.print(f"{done.size.name}: {said}: {accepted(done.judgement)}")
    return found


def _tell(job: Job, runs: list[ShortRun], context: int, run: own.RunOptions) -> None:
    from outrider.bench.provenance import provenance
    from outrider.cli import terminal
    from outrider.cli.bench_out import finish
    from outrider.cli.sizing import scale_document, scale_tables
    from outrider.train.plot import draw_scaling
    from outrider.train.scaling import fit

    law = fit([one.point for one in runs])
    document = scale_document(runs, _costs(job, runs, context, run), law, provenance(job.llm.model))
    drawn = draw_scaling(document, job.out)
    finish(document, job.out / "scale.json", run.as_json, lambda: scale_tables(document))
    if drawn is not None and not run.as_json:
        terminal.console().print(f"drawn in {drawn}")


def _costs(job: Job, runs: list[ShortRun], context: int, run: own.RunOptions) -> dict[str, Costs]:
    """Return by size what passes cost: the trained head's own, as it drafts."""
    from outrider.draft_heads import ready_head
    from outrider.planner.forecast import Costs
    from outrider.pricing import measured_latency

    target = measured_latency(job.llm.model).get()
    found = {}
    for name, one in {one.size.name: one for one in runs}.items():
        head = ready_head("eagle", str(one.directory), job.llm.model, weights=run.weights)
        found[name] = Costs(target, planning.draft_latency(head), context)
    return found
