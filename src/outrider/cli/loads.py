"""Options that say how requests come, for what is measured under load and what is simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.cli.numbers import numbers, whole_numbers
from outrider.errors import OptionError

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
MaxTokens = Annotated[
    str,
    typer.Option(
        "--max-tokens",
        metavar="N|A-B",
        help="Most tokens of an answer; A-B gives each request its own limit between these, by --seed.",
    ),
]


def tokens_of(text: str) -> tuple[int | None, int]:
    """Return the least and the greatest limit of an answer that `--max-tokens` names; least None: all equal.

    OptionError for what is neither N nor A-B, with 1 ≤ A < B.
    """
    words = text.split("-")
    limits = [int(word) for word in words if word.isascii() and word.isdigit()]
    if len(limits) != len(words) or len(limits) > 2 or limits[0] < 1:
        raise OptionError(
            f"--max-tokens {text!r} is not allowed; write a number above 0, or two, as in 24-72"
        )
    if len(limits) == 1:
        return None, limits[0]
    if limits[0] >= limits[1]:
        raise OptionError(f"--max-tokens {text!r}: the first number must be below the second, as in 24-72")
    return limits[0], limits[1]


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
