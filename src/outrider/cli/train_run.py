"""What the training commands under `outrider train` share: load, run, say how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from outrider.cli import train_options as own
from outrider.cli.interrupts import INTERRUPTED
from outrider.cli.train_options import RunOptions
from outrider.errors import OptionError

if TYPE_CHECKING:
    from outrider.train.start import Job
    from outrider.train.task import Outcome


def learn(
    start: Callable[[Job], Outcome],
    target: str,
    out: Path,
    run: RunOptions,
    recipe: dict[str, Any],
    *,
    use: str,
) -> None:
    """Load the target, train by `start`, and say how it ended; `use` is how one drafts with the result."""
    with ready_job(target, out, run, recipe) as job:
        outcome = start(job)
    if job.group.leads:
        _tell(outcome, job, run.as_json, use)
    if outcome.reason == "stopped":
        raise typer.Exit(INTERRUPTED)


@contextmanager
def ready_job(target: str, out: Path, run: RunOptions, recipe: dict[str, Any]) -> Iterator[Job]:
    """Check the options, load the target, and show progress meanwhile."""
    writing = own.writing_of(run.temperature, run.max_tokens, run.seed)

    from outrider.cli import terminal
    from outrider.cli.loading import load_llm
    from outrider.cli.train_progress import showing
    from outrider.train.group import joined
    from outrider.train.recipe import Recipe
    from outrider.train.start import Data, Job, Reading, Watch

    given = tuple(run.data or ())
    for path in given:
        if not path.exists():
            raise OptionError(f"--data: there is no {str(path)!r}")
    count = own.OWN_COUNT if not given and run.count is None else run.count
    data = Data(given, count, writing, run.running)
    settings = Recipe(**recipe)
    reading = Reading(run.top, int(run.buffer * 1e9))
    group = joined(run.device, run.precision)
    device = group.place(run.device)
    notes = terminal.console(stderr=True)
    notes.quiet = not group.leads
    llm = load_llm(target, notes, weights=run.weights, device=device, threads=run.threads)
    with showing(notes) as show:
        watch = Watch(show.writing, show.training, show.texts, show.reading)
        yield Job(llm, target, out, data, settings, reading, run.resume, watch, group)


def _tell(outcome: Outcome, job: Job, as_json: bool, use: str) -> None:
    from outrider.bench.provenance import provenance
    from outrider.cli import terminal
    from outrider.cli.documents import one_line
    from outrider.cli.train_progress import accepted, duration
    from outrider.train.plot import draw
    from outrider.train.run import Run

    drawn = draw(Run(job.out))
    found = outcome.judgement
    if as_json:
        document = {
            "reason": outcome.reason,
            "step": outcome.step,
            "seconds": outcome.seconds,
            "held_loss": None if found is None else found.loss,
            "kept": None if found is None else list(found.kept),
            "agreeing": None if found is None else list(found.agreeing),
            "accepted_length": None if found is None else found.accepted_length,
            "provenance": provenance(job.llm.model),
        }
        print(one_line(document), flush=True)
    else:
        console = terminal.console()
        console.print(f"{outcome.step} steps in {duration(outcome.seconds)} ({outcome.reason}); in {job.out}")
        if found is not None:
            console.print(f"held-out texts, by depth: {accepted(found)}")
        if drawn is not None:
            console.print(f"drawn in {drawn}")
        if outcome.reason == "stopped":
            console.print("continue with the same command and --resume")
        else:
            console.print(f"draft with it: {use}")
