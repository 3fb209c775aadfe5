"""`outrider simulate`: the engine under load, worked out from measured times of passes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from outrider.cli import options, planning
from outrider.cli.command import Command
from outrider.errors import OptionError, PromptError

if TYPE_CHECKING:
    from outrider.bench.simulate import Job
    from outrider.bench.traffic import Load
    from outrider.drafters import DrafterSpec
    from outrider.models.base import LoadedModel
    from outrider.planner.latency import Latency

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
    source: planning.Source = None,
    suite: Annotated[
        str | None,
        typer.Option("--suite", metavar="NAME|FILE", help="Prompts whose lengths are taken (default: own)."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N prompts of each task.")
    ] = None,
    prompt_tokens: Annotated[
        str | None,
        typer.Option(
            "--prompt-tokens", metavar="N,N,…", help="Lengths of prompts, in turn, without a suite."
        ),
    ] = None,
    max_tokens: options.MaxTokens = 128,
    concurrency: options.Concurrency = None,
    rate: options.Rate = None,
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests",
            min=1,
            metavar="N",
            help="Requests of a run (default: one for each length, at least two for each client).",
        ),
    ] = None,
    running: options.Running = None,
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
    from outrider.bench.simulate import Drafts, System
    from outrider.bench.simulate_result import (
        SIMULATION_SCHEMA,
        regime_tables,
        regimes,
        simulated_rows,
        simulation_table,
    )
    from outrider.cli.bench_out import check_out, finish
    from outrider.drafters import parse_drafter
    from outrider.engine.engine import DEFAULT_BUDGET
    from outrider.engine.scheduler import Limits
    from outrider.planner.forecast import Costs

    spec = parse_drafter(drafter)
    told = planning.acceptance_of(acceptance, source, drafter)
    loads = _loads(concurrency, rate)
    contexts = sorted(set(planning.whole_numbers("--context", context)))
    if not 0 < scale < float("inf"):
        raise OptionError(f"--scale {scale:g}: write a number above 0")
    check_out(out)

    from outrider.bench.curves import scaled
    from outrider.bench.provenance import provenance

    loaded, latency, draft = _curves(model, spec, weights, activations, device, threads)
    latency = scaled(latency, scale)
    lengths = _lengths(loaded, suite, limit, prompt_tokens, max_tokens)
    most = running or max([Limits().running, *(load.clients or 0 for load in loads)])
    nodes = DEFAULT_BUDGET if budget is None else budget
    alphas = [row[0] for row in told.acceptance]
    system = System(
        latency,
        Limits(running=most),
        Drafts(alphas, nodes, told.drafted_share, draft),
        told.overhead if overhead is None else overhead,
    )
    document = {
        "schema": SIMULATION_SCHEMA,
        "results": simulated_rows(
            system,
            told.plain_overhead if overhead is None else overhead,
            drafter,
            loads,
            lengths,
            count=requests,
            seed=seed,
        ),
        "regimes": regimes(Costs(latency, draft), contexts, nodes),
        "assumed": {
            "source": "given" if source is None else source.name,
            "alphas": alphas,
            "drafted_share": told.drafted_share,
            "overhead": system.overhead,
            "budget": nodes,
            "running": most,
            "scale": scale,
            "prompt_tokens": [job.prompt for job in lengths],
            "max_tokens": max_tokens,
            "latency": asdict(latency),
            "draft_latency": None if draft is None else asdict(draft),
        },
        "provenance": provenance(_described(model, loaded)),
    }
    finish(document, out, as_json, lambda: [simulation_table(document), *regime_tables(document)])


def _curves(
    name: str, spec: DrafterSpec, weights: str, activations: str, device: str, threads: int | None
) -> tuple[LoadedModel | None, Latency, Latency | None]:
    """Return the model, if it is one, its curve, and that of the draft model."""
    from outrider.bench.curves import PUBLISHED, read_latency, with_reading
    from outrider.cli import terminal
    from outrider.cli.loading import load_llm
    from outrider.drafters import draft_model
    from outrider.llm import measured_latency

    if name in PUBLISHED or name.endswith(".json"):
        if spec.model is not None:
            raise OptionError(f"a draft model is timed beside its target, and {name!r} is only a curve")
        return None, PUBLISHED[name] if name in PUBLISHED else read_latency(Path(name)), None
    notes = terminal.console(stderr=True)
    loaded = load_llm(
        name, notes, weights=weights, activations=activations, device=device, threads=threads
    ).model
    draft = draft_model(spec, loaded, weights=weights, activations=activations, device=device)
    with notes.status("timing passes"):
        latency = with_reading(loaded.target, measured_latency(loaded).get())
        return loaded, latency, None if draft is None else measured_latency(draft).get()


def _lengths(
    loaded: LoadedModel | None, suite: str | None, limit: int | None, written: str | None, max_tokens: int
) -> list[Job]:
    """Return what is asked for: lengths that were written down, or those of a suite's prompts."""
    from outrider.bench.simulate import Job
    from outrider.bench.suites import open_suite

    if written is not None:
        if suite is not None or limit is not None:
            raise OptionError("give --prompt-tokens or a suite, not both")
        return [Job(length, max_tokens) for length in planning.whole_numbers("--prompt-tokens", written)]
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


def _loads(concurrency: str | None, rate: str | None) -> list[Load]:
    from outrider.bench.traffic import Load
    from outrider.cli.bench_out import listed_names

    clients = options.CLIENTS if concurrency is None and rate is None else concurrency
    counts = [] if clients is None else planning.whole_numbers("--concurrency", clients)
    return [Load(clients=count) for count in sorted(set(counts))] + [
        Load(rate=_rate(word)) for word in listed_names(rate or "")
    ]


def _rate(word: str) -> float:
    try:
        found = float(word)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise OptionError(f"--rate: {word!r} is no number above 0")
    return found


def _described(name: str, loaded: LoadedModel | None) -> LoadedModel:
    """Return what a result says of the model; of a curve that is its name."""
    from outrider.models.base import LoadedModel

    return loaded or LoadedModel(name, cast("Any", None), cast("Any", None))
