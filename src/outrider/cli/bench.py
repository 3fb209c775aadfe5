"""`outrider bench`: drafters side by side on a suite of prompts, and what a pass of the target costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from outrider.cli import options
from outrider.cli.bench_load import load
from outrider.cli.bench_out import check_out, finish, listed_names
from outrider.cli.command import Command
from outrider.cli.interrupts import INTERRUPTED
from outrider.errors import OptionError, UnknownNameError, near_names


class DefaultCommand(TyperGroup):
    """A group that takes what is not one of its commands as the arguments of `run`."""

    default = "run"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command's name in front where no command is named.

        UnknownNameError for a word that stands where a command does and is no model: a second word follows
        it, or it is nearly a command's name.
        """
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            followed = len(args) > 1 and not any(word.startswith("-") for word in args[:2])
            mistyped = near_names(args[0], self.commands, least=0.75) and not Path(args[0]).exists()
            if followed or mistyped:
                raise UnknownNameError("bench command", args[0], self.commands)
            args = [self.default, *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(cls=DefaultCommand, add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure drafters, alone or under load, or the cost of a pass.

    `outrider bench MODEL …` is `outrider bench run MODEL …`.
    """


@app.command(cls=Command)
def run(
    model: options.Model,
    suite: options.SuiteOption = "own",
    limit: options.Limit = None,
    drafters: Annotated[
        str,
        typer.Option("--drafters", metavar="A,B,…", help=f"{options.DRAFTER_HELP} none is always run."),
    ] = "none,suffix",
    drafter_option: options.DrafterOptions = None,
    peer: Annotated[
        list[str] | None,
        typer.Option("--peer", metavar="NAME[:WEIGHTS]", help=options.PEER_HELP),
    ] = None,
    rule: options.Rule = "auto",
    guarantee: options.GuaranteeOption = None,
    allow_lossy: options.AllowLossy = False,
    budget: options.Budget = None,
    fill_budget: options.FillBudget = False,
    max_tokens: options.MaxTokens = 128,
    ignore_eos: options.IgnoreEos = False,
    temperature: options.Temperature = 0.0,
    seed: Annotated[
        int, typer.Option("--seed", metavar="S", help="Seed of the sampled text, the same for all drafters.")
    ] = 0,
    chat: options.Chat = None,
    turns: Annotated[
        bool, typer.Option("--turns", help="Run all turns of a prompt; answers are plain decoding's.")
    ] = False,
    weights: options.Weights = "auto",
    activations: options.Activations = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    out: options.Out = None,
    as_json: options.Json = False,
) -> None:
    """Measure drafters on prompts.

    Every drafter answers every prompt and is compared with plain decoding.
    """
    from outrider.sampling.params import SamplingParams

    names = listed_names(drafters)
    options.check_names(names, rule, guarantee, allow_lossy)
    settings = options.options_by_drafter(drafter_option, names)
    peers = list(dict.fromkeys(peer or ()))
    params = SamplingParams(temperature=temperature, seed=seed, max_tokens=max_tokens, ignore_eos=ignore_eos)
    check_out(out)

    from outrider.bench.contestants import check_peers, contestants

    check_peers(peers, params)

    from outrider.bench.provenance import provenance
    from outrider.bench.result import bench_document
    from outrider.bench.run import Measurement, run_suite
    from outrider.bench.suites import open_suite
    from outrider.bench.table import results_table
    from outrider.cli import terminal
    from outrider.cli.loading import load_llm

    prompts = open_suite(suite).limited(limit)
    notes = terminal.console(stderr=True)
    llm = load_llm(
        model,
        notes,
        rule=rule,
        guarantee=guarantee,
        lossy=allow_lossy,
        weights=weights,
        activations=activations,
        device=device,
        budget=budget,
        fill_budget=fill_budget,
        threads=threads,
    )
    with notes.status("loading what it is compared with"):
        runners = contestants(model, llm, names, peers, params, settings)
    measurements: list[Measurement] = []
    interrupted = False
    try:
        run_suite(llm, runners, prompts, params, chat=chat, turns=turns, notes=notes, into=measurements)
    except KeyboardInterrupt:
        if not measurements:
            raise
        interrupted = True
    document = bench_document(measurements, prompts, params, provenance(llm.model))
    finish(document, out, as_json, lambda: [results_table(document)])
    if interrupted:
        raise typer.Exit(INTERRUPTED)


@app.command(cls=Command)
def curve(
    model: options.Model,
    context: Annotated[
        list[int] | None,
        typer.Option("--context", min=1, metavar="N", help="Cached tokens (may be given several times)."),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option("--repeats", min=1, metavar="N", help="Passes per count of rows; the median counts."),
    ] = 9,
    passes: Annotated[
        str, typer.Option("--pass", metavar="A,B,…", help="Implementations: auto, native, pytorch.")
    ] = "auto",
    weights: Annotated[
        str, typer.Option("--weights", metavar="A,B,…", help="Formats of the weights, each as in generate.")
    ] = "auto",
    activations: Annotated[
        str, typer.Option("--activations", metavar="A,B,…", help="Activations, each as in generate.")
    ] = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    drafter: Annotated[
        str | None,
        typer.Option(
            "--drafter",
            metavar="NAME",
            help="Also time steps of a drafter (eagle:HEAD, medusa:, lm:, layerskip).",
        ),
    ] = None,
    drafter_option: options.DrafterOptions = None,
    out: options.Out = None,
    as_json: options.Json = False,
) -> None:
    """Time one pass over 1 to 32 rows.

    With several implementations, formats or activations, the passes of all are timed in turns. With a
    drafter, so are its steps: one level of a tree each.
    """
    settings = options.options_by_drafter(drafter_option, [] if drafter is None else [drafter])
    check_out(out)

    from outrider.bench.curve import check_steps, measure_targets, steps_of

    if drafter is not None:
        check_steps(drafter)

    from outrider.bench.provenance import provenance
    from outrider.bench.result import curve_document
    from outrider.bench.table import curve_table, steps_table
    from outrider.cli import terminal
    from outrider.cli.loading import load_passes
    from outrider.planner.cost import CONTEXTS

    contexts = tuple(context or CONTEXTS)
    notes = terminal.console(stderr=True)
    loaded = load_passes(
        model,
        notes,
        passes=listed_names(passes),
        weights=listed_names(weights),
        activations=listed_names(activations),
        device=device,
        threads=threads,
    )
    steps = []
    if drafter is not None:
        with notes.status(f"loading {drafter}"):
            named = settings.get(drafter.partition(":")[0])
            steps = [steps_of(drafter, each, device=device, options=named) for each in loaded]
    with notes.status("timing passes"):
        curves = measure_targets(
            [each.target for each in loaded], contexts=contexts, repeats=repeats, steps=steps
        )
    left_out = [wanted for wanted in contexts if wanted not in {point.context for point in curves[0]}]
    for wanted in left_out:
        limit = min(each.target.context_limit for each in loaded)
        notes.print(f"context {wanted} is left out: the model's own limit is {limit} tokens")
    if not curves[0]:
        raise OptionError("no context is left to measure; give a smaller --context")
    kernels = [each.details["kernel"] for each in loaded]
    document = curve_document(
        dict(zip(kernels, curves, strict=False)),
        left_out,
        provenance(loaded[0]),
        drafter=drafter,
        steps=dict(zip(kernels, curves[len(kernels) :], strict=False)),
    )
    tables = (curve_table, steps_table) if steps else (curve_table,)
    finish(document, out, as_json, lambda: [table(document) for table in tables])


@app.command(cls=Command)
def roofline(
    model: options.Model,
    context: Annotated[int, typer.Option("--context", min=1, metavar="N", help="Cached tokens.")] = 256,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, metavar="N", help="Reads, and passes per count of rows.")
    ] = 15,
    implementation: Annotated[
        str, typer.Option("--pass", metavar="NAME", help="Implementation: auto, native or pytorch.")
    ] = "auto",
    weights: options.Weights = "auto",
    activations: options.Activations = "auto",
    threads: options.Threads = None,
    out: options.Out = None,
    as_json: options.Json = False,
) -> None:
    """Compare passes with the time this machine takes to read the same bytes."""
    check_out(out)

    from outrider.bench.provenance import provenance
    from outrider.bench.roofline import measure_roofline, roofline_document
    from outrider.bench.table import roofline_table
    from outrider.cli import terminal
    from outrider.cli.loading import load_passes

    notes = terminal.console(stderr=True)
    (loaded,) = load_passes(
        model,
        notes,
        passes=[implementation],
        weights=[weights],
        activations=[activations],
        device="cpu",
        threads=threads,
    )
    with notes.status("timing reads and passes"):
        measured = measure_roofline(loaded.target, context=context, repeats=repeats)
    document = roofline_document(measured, context, loaded.details["kernel"], provenance(loaded))
    finish(document, out, as_json, lambda: [roofline_table(document)])


app.command(cls=Command)(load)
