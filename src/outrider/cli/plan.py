"""`outrider plan`: what would speculation bring, with this model on this machine?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.cli import options
from outrider.cli.command import Command
from outrider.errors import CapabilityError, OptionError

if TYPE_CHECKING:
    from rich.console import Console

    from outrider.bench.plan import Machine
    from outrider.models.base import LoadedModel, Target
    from outrider.planner.forecast import Costs

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def plan(
    model: options.Model,
    drafter: options.Drafter = "suffix",
    acceptance: Annotated[
        str | None,
        typer.Option(
            "--acceptance",
            metavar="A,B,…",
            help="Chance that a drafted token is kept, by depth; the last holds for all deeper ones. "
            "Chances of several children of a node are joined by slashes (0.6/0.2).",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RESULT.json", help="Take it from a result of outrider bench run instead."
        ),
    ] = None,
    batch: Annotated[
        str, typer.Option("--batch", metavar="A,B,…", help="Sequences in one pass.")
    ] = "1,2,4,8,16,32",
    budget: options.Budget = None,
    context: Annotated[
        int, typer.Option("--context", min=0, metavar="N", help="Cached tokens of every sequence.")
    ] = 256,
    weights: options.Weights = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Also draw it, as .png or .html (needs matplotlib)."),
    ] = None,
    out: options.Out = None,
    as_json: options.Json = False,
) -> None:
    """Work out what drafts of each length would bring, by measured times of passes.

    Nothing is generated: acceptance is given, or taken from a result.
    """
    from outrider.bench.plan import Question, plan_document, plan_tables
    from outrider.bench.plan_plot import check_plot, plot_plan
    from outrider.cli.bench_out import check_out, finish, listed_names
    from outrider.drafters import parse_drafter
    from outrider.engine.engine import DEFAULT_BUDGET

    draft_model = parse_drafter(drafter).model
    question = Question(
        drafter=drafter,
        acceptance=_acceptance(acceptance, source, drafter),
        source="given" if source is None else source.name,
        batches=_whole_numbers(listed_names(batch)),
        budget=DEFAULT_BUDGET if budget is None else budget,
    )
    check_out(out)
    if plot is not None:
        check_out(plot, "--plot")
        check_plot(plot)

    from outrider.bench.provenance import provenance
    from outrider.cli import terminal
    from outrider.cli.loading import load_llm
    from outrider.llm import measured_latency
    from outrider.planner.forecast import Costs

    notes = terminal.console(stderr=True)
    loaded = load_llm(model, notes, weights=weights, device=device, threads=threads).model
    room = loaded.target.context_limit - 1 - question.budget
    if context > room:
        raise OptionError(f"beside drafts of {question.budget} tokens there is room for --context {room}")
    draft = None if draft_model is None else _load_draft(draft_model, loaded, weights, device)
    with notes.status("timing passes"):
        draft_latency = None if draft is None else measured_latency(draft).get()
        costs = Costs(measured_latency(loaded).get(), draft_latency, context)
        machine = _machine(loaded.target, costs, notes)
    document = plan_document(question, costs, machine, provenance(loaded))
    if plot is not None:
        plot_plan(document, plot)
    finish(document, out, as_json, lambda: plan_tables(document))


def _acceptance(written: str | None, source: Path | None, drafter: str) -> list[list[float]]:
    from outrider.bench.acceptance import measured_acceptance, parse_acceptance

    if written is not None and source is None:
        return parse_acceptance(written)
    if source is not None and written is None:
        return measured_acceptance(source, drafter)
    raise OptionError("give one of --acceptance (as in 0.7) and --from (a result of outrider bench run)")


def _whole_numbers(words: Sequence[str]) -> list[int]:
    """Return batch sizes, rising; OptionError for what is none."""
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise OptionError("--batch: write whole numbers from 1 up, as in 1,2,4,8")
    return sorted({int(word) for word in words})


def _load_draft(name: str, target: LoadedModel, weights: str, device: str) -> LoadedModel:
    from outrider.models.compare import check_same_vocabulary
    from outrider.models.load import load_model

    draft = load_model(name, weights=weights, device=device)
    sizes = target.target.vocab_size, draft.target.vocab_size
    check_same_vocabulary(target.tokenizer, draft.tokenizer, *sizes)
    return draft


def _machine(target: Target, costs: Costs, notes: Console) -> Machine | None:
    """Return what this machine can do for the target; None, with a note, where that cannot be measured."""
    from outrider.bench.plan import machine_of

    try:
        return machine_of(target, costs)
    except CapabilityError as error:
        notes.print(f"note: no bounds of passes: {error}")
        return None
