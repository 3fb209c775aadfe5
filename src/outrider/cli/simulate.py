"""`outrider simulate`: the engine under load, worked out from measured times of passes."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from outrider.cli import loads, options, planning
from outrider.cli.command import Command
from outrider.cli.numbers import number, whole_numbers
from outrider.errors import OptionError, PromptError

if TYPE_CHECKING:
    from outrider.bench.acceptance import Counted
    from outrider.bench.assumed import Assumed, ByTraces
    from outrider.bench.load_names import LoadName
    from outrider.bench.served import Job
    from outrider.bench.simulate_result import Machine
    from outrider.drafters import DrafterSpec
    from outrider.engine.scheduler import Limits
    from outrider.models.base import LoadedModel
    from outrider.planner.latency import Latency

MAX_TOKENS = 128
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def simulate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|CURVE",
            help="A model, whose passes are timed; a .json file with a latency curve; or a published curve.",
        ),
    ],
    drafter: options.Drafter = "suffix",
    acceptance: planning.Acceptance = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RESULT.json",
            help="Take it from a result of outrider bench run; or, with requests, of outrider bench load.",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option("--suite", metavar="NAME|FILE", help="Prompts whose lengths are taken (default: own)."),
    ] = None,
    limit: options.Limit = None,
    prompt_tokens: Annotated[
        str | None,
        typer.Option(
            "--prompt-tokens", metavar="N,N,…", help="Lengths of prompts, in turn, without a suite."
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens", min=1, metavar="N", help=f"Tokens of every answer (default: {MAX_TOKENS})."
        ),
    ] = None,
    concurrency: loads.Concurrency = None,
    rate: loads.Rate = None,
    requests: loads.Requests = None,
    running: loads.Running = None,
    budget: options.Budget = None,
    overhead: Annotated[
        float | None,
        typer.Option(
            "--overhead",
            min=0,
            metavar="MS",
            help="Milliseconds outside of a pass, for each sequence (default: that of --from, else 0).",
        ),
    ] = None,
    scale: Annotated[
        float, typer.Option("--scale", metavar="X", help="Passes take X times as long: a larger model.")
    ] = 1.0,
    context: Annotated[
        str, typer.Option("--context", metavar="N,N,…", help="Contexts of the map of where drafts pay.")
    ] = "256",
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="S", help="Seed of what is kept, and of arrivals.")
    ] = 0,
    weights: options.Weights = "auto",
    activations: options.Activations = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    out: options.Out = None,
    as_json: options.Json = False,
) -> None:
    """Work out what the engine would do under load.

    Its scheduler and planner run, over passes whose times are read off a latency curve.
    """
    from outrider.bench.assumed import Asked, ByDepth, ByTraces
    from outrider.bench.load_names import parse_load_name
    from outrider.bench.simulate_result import (
        SIMULATION_SCHEMA,
        assumed_rows,
        regime_tables,
        regimes,
        simulated_rows,
        simulation_table,
    )
    from outrider.cli.bench_out import check_out, finish
    from outrider.drafters import check_timed_alone
    from outrider.engine.engine import DEFAULT_BUDGET
    from outrider.engine.scheduler import Limits
    from outrider.planner.forecast import Costs

    parsed = parse_load_name(drafter)
    check_timed_alone(parsed.spec)
    if parsed.nodes is not None and budget is not None:
        raise OptionError(f"--budget: {drafter!r} says how much is drafted; leave one out")
    known = _known(acceptance, source, parsed, budget)
    measured = isinstance(known, ByTraces) and suite is None and limit is None and prompt_tokens is None
    if measured and max_tokens is not None:
        raise OptionError("answers are as long as in the result; give --max-tokens with --prompt-tokens")
    wanted = loads.loads_of(concurrency, rate)
    if isinstance(known, ByTraces) and concurrency is None and rate is None:
        wanted = known.loads
    contexts = sorted(whole_numbers("--context", context))
    number("--scale", str(scale))
    check_out(out)

    from outrider.bench.curves import scaled
    from outrider.bench.provenance import provenance

    limits = Limits(running=loads.most_running(running, wanted))
    loaded, machine, draft = _machine(model, parsed.spec, limits, weights, activations, device, threads)
    nodes = DEFAULT_BUDGET if budget is None else budget
    if isinstance(known, ByTraces):
        assumed: Assumed = known
    else:
        fixed = parsed.nodes
        cost = 0.0 if draft is None else draft.at(1) / machine.latency.at(1)
        assumed = ByDepth(known, nodes if fixed is None else fixed, draft, cost, fixed is not None)
    lengths = None if measured else _lengths(loaded, suite, limit, prompt_tokens, max_tokens or MAX_TOKENS)
    jobs = {load: Asked(lengths, requests).jobs(load, assumed) for load in wanted}
    reading = None if machine.reading is None else scaled(machine.reading, scale)
    machine = replace(machine, latency=scaled(machine.latency, scale), reading=reading, overhead=overhead)
    document = {
        "schema": SIMULATION_SCHEMA,
        "results": simulated_rows(machine, assumed, drafter, jobs, seed=seed),
        "regimes": regimes(Costs(machine.latency, draft), contexts, nodes),
        "assumed": {
            "source": "given" if source is None else source.name,
            "by_load": assumed_rows(machine, assumed, jobs),
            "prompt_tokens": [job.prompt for job in lengths or jobs[wanted[0]]],
            "tokens": [job.output for job in lengths or jobs[wanted[0]]],
            "running": limits.running,
            "scale": scale,
            "latency": asdict(machine.latency),
            "reading_latency": asdict(reading or machine.latency),
            "stretch": machine.stretch,
            "draft_latency": None if draft is None else asdict(draft),
        },
        "provenance": provenance(_described(model, loaded)),
    }
    finish(document, out, as_json, lambda: [simulation_table(document), *regime_tables(document)])


def _known(
    acceptance: str | None, source: Path | None, drafter: LoadName, budget: int | None
) -> ByTraces | Counted:
    """Return what is known of a drafter: traces of a benchmark under load, or chances by depth."""
    from outrider.bench.assumed import traces_in

    if acceptance is None and source is not None:
        traced = traces_in(source, drafter.name, budget)
        if traced is not None:
            return traced
    if drafter.fails:
        raise OptionError(f"{drafter.name!r} goes with --from a result of outrider bench load that has it")
    return planning.acceptance_of(acceptance, source, drafter.drafter)


def _machine(
    name: str,
    spec: DrafterSpec,
    limits: Limits,
    weights: str,
    activations: str,
    device: str,
    threads: int | None,
) -> tuple[LoadedModel | None, Machine, Latency | None]:
    """Return the model, if it is one, what its passes take, and the curve of the draft model."""
    from outrider.bench.curves import PUBLISHED, mean_over_median, read_latency, reading_latency
    from outrider.bench.simulate_result import Machine
    from outrider.cli import terminal
    from outrider.cli.loading import load_llm
    from outrider.drafters import draft_model
    from outrider.pricing import measured_latency

    if name in PUBLISHED or name.endswith(".json"):
        if spec.model is not None:
            raise OptionError(f"a draft model is timed beside its target, and {name!r} is only a curve")
        return None, Machine(PUBLISHED[name] if name in PUBLISHED else read_latency(Path(name)), limits), None
    notes = terminal.console(stderr=True)
    loaded = load_llm(
        name, notes, weights=weights, activations=activations, device=device, threads=threads
    ).model
    draft = draft_model(spec, loaded, weights=weights, activations=activations, device=device)
    with notes.status("timing passes"):
        target = loaded.target
        latency, reading = measured_latency(loaded).get(), reading_latency(target)
        machine = Machine(latency, limits, reading, stretch=mean_over_median(target))
        return loaded, machine, None if draft is None else planning.draft_latency(draft)


def _lengths(
    loaded: LoadedModel | None, suite: str | None, limit: int | None, written: str | None, max_tokens: int
) -> list[Job]:
    """Return what is asked for: lengths that were written down, or those of a suite's prompts."""
    from outrider.bench.served import Job
    from outrider.bench.suites import open_suite

    if written is not None:
        if suite is not None or limit is not None:
            raise OptionError("give --prompt-tokens or a suite, not both")
        return [Job(length, max_tokens) for length in whole_numbers("--prompt-tokens", written)]
    if loaded is None:
        raise OptionError("a curve has no tokenizer to measure prompts with; give --prompt-tokens")
    tokenizer, room = loaded.tokenizer, loaded.target.context_limit
    found = []
    for prompt in open_suite(suite or "own").limited(limit).prompts:
        text = prompt.turns[0]
        chat = tokenizer.has_chat_template
        ids = tokenizer.chat([{"role": "user", "content": text}]) if chat else tokenizer.encode(text)
        if len(ids) < room:
            found.append(Job(len(ids), min(max_tokens, room - len(ids))))
    if not found:
        raise PromptError(f"no prompt of the suite fits into the model's context of {room} tokens")
    return found


def _described(name: str, loaded: LoadedModel | None) -> LoadedModel:
    """Return what a result says of the model; of a curve that is its name."""
    from outrider.models.base import LoadedModel

    return loaded or LoadedModel(name, cast("Any", None), cast("Any", None))
