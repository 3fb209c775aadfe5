"""What the training commands under `outrider train` share: load, run, say how it ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from outrider.cli import train_options as own
from outrider.cli.interrupts import INTERRUPTED
from outrider.errors import OptionError

if TYPE_CHECKING:
    from outrider.llm import LLM
    from outrider.train.run import Run
    from outrider.train.start import Job
    from outrider.train.task import Outcome


def run(
    start: Callable[[Job], Outcome],
    target: str,
    out: Path,
    *,
    recipe: dict[str, Any],
    data: dict[str, Any],
    writing: tuple[str, int, int],
    reading: tuple[int, float],
    resume: bool,
    loading: dict[str, Any],
    as_json: bool,
    use: str,
) -> None:
    """Load the target, run, and say how it ended."""
    written = own.writing_of(*writing)

    from outrider.cli import terminal
    from outrider.cli.loading import load_llm
    from outrider.cli.train_progress import showing
    from outrider.train.recipe import Recipe
    from outrider.train.run import Run
    from outrider.train.start import Data, Job, Reading, Watch

    given = tuple(data["given"] or ())
    for path in given:
        if not path.exists():
            raise OptionError(f"--data: there is no {str(path)!r}")
    data = {**data, "given": given}
    if not given and data["count"] is None:
        data["count"] = own.OWN_COUNT
    if recipe["minutes"] is not None:
        recipe.setdefault("epochs", 1000.0)  # the time ends it
    settings = Recipe(**recipe)
    notes = terminal.console(stderr=True)
    llm = load_llm(target, notes, **loading)
    with showing(notes) as show:
        job = Job(
            llm,
            target,
            out,
            Data(**data, writing=written),
            settings,
            Reading(reading[0], int(reading[1] * 1e9)),
            resume,
            Watch(show.writing, show.training, show.texts, show.reading),
        )
        outcome = start(job)
    _tell(outcome, Run(out), llm, as_json, use)


def _tell(outcome: Outcome, place: Run, llm: LLM, as_json: bool, use: str) -> None:
    from outrider.bench.provenance import provenance
    from outrider.cli import terminal
    from outrider.cli.documents import one_line
    from outrider.cli.train_progress import accepted, duration
    from outrider.train.plot import draw

    drawn = draw(place)
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
            "provenance": provenance(llm.model),
        }
        print(one_line(document), flush=True)
    else:
        console = terminal.console()
        console.print(
            f"{outcome.step} steps in {duration(outcome.seconds)} ({outcome.reason}); in {place.out}"
        )
        if found is not None:
            console.print(f"held-out texts, by depth: {accepted(found)}")
        if drawn is not None:
            console.print(f"drawn in {drawn}")
        if outcome.reason == "stopped":
            console.print("continue with the same command and --resume")
        else:
            console.print(f"draft with it: {use}")
    if outcome.reason == "stopped":
        raise typer.Exit(INTERRUPTED)
