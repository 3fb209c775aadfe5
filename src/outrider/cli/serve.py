"""`outrider serve`: a model behind HTTP, in the shape of OpenAI's API."""

from __future__ import annotations

import importlib.util
import os
from pathlib import PurePath
from typing import Annotated

import typer

from outrider.cli import options
from outrider.cli.command import Command
from outrider.errors import OptionError

KEY_VARIABLE = "OUTRIDER_API_KEY"
"""Environment variable: a key that clients must send, kept out of the list of processes."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)

NEEDED = {
    "fastapi": '"fastapi>=0.115"',
    "uvicorn": '"uvicorn>=0.34"',
    "prometheus_client": '"prometheus-client>=0.21"',
}
"""Modules that the server is made of, and what to install for each."""


@app.command(cls=Command)
def serve(
    model: options.Model,
    drafter: options.Drafter = "auto",
    drafter_option: options.DrafterOption = None,
    rule: options.Rule = "auto",
    guarantee: options.GuaranteeOption = None,
    allow_lossy: options.AllowLossy = False,
    budget: options.Budget = None,
    fill_budget: options.FillBudget = False,
    weights: options.Weights = "auto",
    activations: options.Activations = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; 0.0.0.0 is everywhere.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="0 takes a free one.")
    ] = 8000,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            "--api-key",
            metavar="KEY",
            help=f"A key that clients must send (or several); also {KEY_VARIABLE}, which ps does not show.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The model's name for clients.")
    ] = None,
    max_memory: Annotated[
        float | None,
        typer.Option(
            "--max-memory",
            metavar="GB",
            help="Memory for keys, values and prefixes (default: a quarter of the machine's).",
        ),
    ] = None,
    running: Annotated[
        int, typer.Option("--running", min=1, metavar="N", help="Most requests in one pass.")
    ] = 16,
    waiting: Annotated[
        int, typer.Option("--waiting", min=0, metavar="N", help="Most requests that wait; more get a 503.")
    ] = 256,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", help="Seconds after which an answer ends as it is.")
    ] = 600.0,
    max_body: Annotated[
        float, typer.Option("--max-body", metavar="MB", help="Largest body of a request.")
    ] = 8.0,
    drain: Annotated[
        float, typer.Option("--drain", metavar="S", help="Seconds for requests to end after a signal.")
    ] = 30.0,
    log_text: Annotated[
        bool, typer.Option("--log-text", help="Put prompts and answers into the log.")
    ] = False,
) -> None:
    """Serve a model over HTTP, in the shape of OpenAI's API."""
    missing = [need for module, need in NEEDED.items() if not importlib.util.find_spec(module)]
    if missing:
        raise OptionError(f"serve needs more packages; run: pip install {' '.join(missing)}")
    for option, value, unit in (("--max-memory", max_memory, "GB"), ("--max-body", max_body, "MB")):
        if value is not None and not 1e-6 <= value <= 1e6:
            raise OptionError(f"{option}={value:g} is not allowed; give {unit}, a number above 0")
    options.check_names([drafter], rule, guarantee, allow_lossy)
    from importlib.metadata import version

    from outrider.server.settings import Settings

    own = os.environ.get(KEY_VARIABLE)
    settings = Settings(
        name=PurePath(model).name if name is None else name,
        api_keys=(*(api_key or ()), *([own] if own else [])),
        most_body=int(max_body * 1e6),
        timeout=timeout,
        drain=drain,
        log_text=log_text,
    )
    from outrider.server.run import listen

    listening = listen(host, port)  # a port that is taken fails before a model is loaded

    from outrider.cli import terminal
    from outrider.cli.loading import load_llm
    from outrider.server import log
    from outrider.server.memory import limits_of
    from outrider.server.run import serve as run
    from outrider.server.site import site_of

    notes = terminal.console(stderr=True)
    notes.quiet = not notes.is_terminal  # then stderr is the log, and nothing but JSON
    llm = load_llm(
        model,
        notes,
        drafter=drafter,
        drafter_options=options.drafter_options(drafter_option),
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
    memory = None if max_memory is None else int(max_memory * 1e9)
    limits = limits_of(llm, memory, running=running, waiting=waiting)
    log.set_up()
    for notice in llm.model.details.get("notices", ()):
        log.note("notice", {"text": notice})
    run(site_of(llm, llm.engine(limits), settings, version("outrider")), listening)
