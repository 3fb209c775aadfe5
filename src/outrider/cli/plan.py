"""`outrider plan`: what would speculation bring, with this model on this machine?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.cli import options, planning
from outrider.cli.command import Command
from outrider.cli.numbers import whole_numbers
from outrider.errors import CapabilityError, OptionError

if TYPE_CHECKING:
    from rich.console import Console

    from outrider.bench.plan import Machine
    from outrider.models.base import Target
    from outrider.planner.forecast import Costs

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def plan(
    model: options.Model,
    drafter: options.Drafter = "suffix",
    acceptance: planning.Acceptance = None,
    source: planning.Source = None,
    batch: Annotated[
        str, typer.Option("--batch", metavar="A,B,…", help="Sequences in one pass.")
    ] = "1,2,4,8,16,32",
    budget: options.Budget = None,
    context: Annotated[
        int, typer.Option("--context", min=0, metavar="N", help="Cached tokens of every sequence.")
    ] = 256,
    weights: options.Weights = "auto",
    activations: options.Activations = "auto",
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
    from outrider.bench.plan_plot import KINDS, plot_plan
    from outrider.bench.plot import check_plot
    from outrider.cli.bench_out import check_out, finish
    from outrider.drafters import check_timed_alone, draft_model, parse_drafter
    from outrider.engine.engine import DEFAULT_BUDGET

    spec = parse_drafter(drafter)
    check_timed_alone(spec)
    question = Question(
        drafter=drafter,
        acceptance=planning.acceptance_of(acceptance, source, drafter).acceptance,
        source="given" if source is None else source.name,
        batches=sorted(set(whole_numbers("--batch", batch))),
        budget=DEFAULT_BUDGET if budget is None else budget,
    )
    check_out(out)
    if plot is not None:
        check_out(plot, "--plot")
        check_plot(plot, *KINDS)

    from outrider.bench.provenance import provenance
    from outrider.cli import terminal
    from outrider.cli.loading import load_llm
    from outrider.planner.forecast import Costs
    from outrider.pricing import measured_latency

    notes = terminal.console(stderr=True)
    loaded = load_llm(
        model, notes, weights=weights, activations=activations, device=device, threads=threads
    ).model
    room = loaded.target.context_limit - 1 - question.budget
    if context > room:
        raise OptionError(f"beside drafts of {question.budget} tokens there is room for --context {room}")
    draft = draft_model(spec, loaded, weights=weights, activations=activations, device=device)
    with notes.status("timing passes"):
        drafting = None if draft is None else planning.draft_latency(draft)
        costs = Costs(measured_latency(loaded).get(), drafting, context)
        machine = _machine(loaded.target, costs, notes)
    document = plan_document(question, costs, machine, provenance(loaded))
    if plot is not None:
        plot_plan(document, plot)
    finish(document, out, as_json, lambda: plan_tables(document))


def _machine(target: Target, costs: Costs, notes: Console) -> Machine | None:
    """Return what this machine can do for the target; None, with a note, where that cannot be measured."""
    from outrider.bench.plan import machine_of

    try:
        return machine_of(target, costs)
    except CapabilityError as error:
        notes.print(f"note: no bounds of passes: {error}")
        return None
