"""Options that say how requests come, for what is measured under load and what is simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.cli.numbers import numbers, whole_numbers

if TYPE_CHECKING:
    from outrider.bench.traffic import Load

CLIENTS = "1,2,4,8,16"
Concurrency = Annotated[
    str | None,
    typer.Option(
        "--concurrency",
        metavar="N,N,…",
        help=f"Closed loop: clients that ask again once they are answered ({CLIENTS} without --rate).",
    ),
]
Rate = Annotated[
    str | None,
    typer.Option("--rate", metavar="R,R,…", help="Open loop: so many requests a second, at random."),
]
Requests = Annotated[
    int | None,
    typer.Option(
        "--requests",
        min=1,
        metavar="N",
        help="Requests of a run; prompts come again where there are fewer "
        "(default: all prompts, at least two for each client).",
    ),
]
Running = Annotated[
    int | None,
    typer.Option(
        "--running",
        min=1,
        metavar="N",
        help="Most requests in one pass (default: the most clients, 16 at least).",
    ),
]


def loads_of(concurrency: str | None, rate: str | None) -> list[Load]:
    """Return the loads that two options ask for, closed ones first; `CLIENTS` where neither is given."""
    from outrider.bench.traffic import Load

    clients = CLIENTS if concurrency is None and rate is None else concurrency
    counts = [] if clients is None else whole_numbers("--concurrency", clients)
    rates = [] if rate is None else numbers("--rate", rate)
    return [*(Load(clients=count) for count in counts), *(Load(rate=each) for each in rates)]


def most_running(running: int | None, loads: Sequence[Load]) -> int:
    """Return the most requests in one pass: as asked for, else the most clients, 16 at least."""
    from outrider.engine.scheduler import Limits

    return running or max([Limits().running, *(load.clients or 0 for load in loads)])
