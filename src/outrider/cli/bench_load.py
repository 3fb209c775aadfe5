"""`outrider bench load`: drafters side by side while many requests are on their way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrider.cli import loads, options
from outrider.cli.bench_out import check_out, finish, listed_names
from outrider.cli.interrupts import INTERRUPTED


def load(
    model: options.Model,
    suite: options.SuiteOption = "own",
    limit: options.Limit = None,
    concurrency: loads.Concurrency = None,
    rate: loads.Rate = None,
    drafters: Annotated[
        str,
        typer.Option(
            "--drafters",
            metavar="A,B,…",
            help=f"{options.DRAFTER_HELP} failing:NAME spoils all its guesses, fixed:K:NAME always asks it "
            "for K tokens, whatever they bring and cost. none is always run.",
        ),
    ] = "none,suffix",
    drafter_option: options.DrafterOptions = None,
    requests: loads.Requests = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, metavar="N", help="Rounds, each with all loads and drafters.")
    ] = 3,
    running: loads.Running = None,
    rule: options.Rule = "auto",
    guarantee: options.GuaranteeOption = None,
    allow_lossy: options.AllowLossy = False,
    budget: options.Budget = None,
    fill_budget: options.FillBudget = False,
    max_tokens: loads.MaxTokens = "128",
    ignore_eos: options.IgnoreEos = False,
    temperature: options.Temperature = 0.0,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", metavar="S", help="Seed of the sampled text and of lengths, the same for all drafters."
        ),
    ] = 0,
    chat: options.Chat = None,
    weights: options.Weights = "auto",
    activations: options.Activations = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    out: options.Out = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE.png", help="Also draw the result (needs matplotlib)."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure drafters under load.

    All drafters answer the same requests in rounds and are compared with plain decoding.
    """
    from outrider.bench.load_names import parse_load_name
    from outrider.bench.plot import KINDS, check_plot, plot_load
    from outrider.sampling.params import SamplingParams

    names = listed_names(drafters)
    drafting = [parse_load_name(name).drafter for name in names]
    options.check_names(drafting, rule, guarantee, allow_lossy)
    settings = options.options_by_drafter(drafter_option, drafting)
    least, most_tokens = loads.tokens_of(max_tokens)
    params = SamplingParams(temperature=temperature, seed=seed, max_tokens=most_tokens, ignore_eos=ignore_eos)
    asked = loads.loads_of(concurrency, rate)
    check_out(out)
    if plot is not None:
        check_out(plot, "--plot")
        check_plot(plot, *KINDS)

    from outrider.bench.load import Measured, encoded, load_contestants, run_loads
    from outrider.bench.load_result import load_document
    from outrider.bench.provenance import provenance
    from outrider.bench.suites import open_suite
    from outrider.bench.table import load_table
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
    texts = encoded(llm, prompts, chat=chat, notes=notes)
    with notes.status("loading what is compared"):
        contestants = load_contestants(
            llm, names, settings, weights=weights, activations=activations, device=device
        )
    most = loads.most_running(running, asked)
    measured: list[Measured] = []
    interrupted = False
    try:
        run_loads(
            contestants,
            texts,
            params,
            asked,
            repeats=repeats,
            count=requests,
            least=least,
            running=most,
            notes=notes,
            into=measured,
        )
    except KeyboardInterrupt:
        if not measured:
            raise
        interrupted = True
    document = load_document(measured, prompts, params, provenance(llm.model), running=most, least=least)
    if plot is not None:
        plot_load(document, plot)
    finish(document, out, as_json, lambda: [load_table(document)])
    if interrupted:
        raise typer.Exit(INTERRUPTED)
