"""What `outrider simulate` found, as a document and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.bench.assumed import Assumed
from outrider.bench.contestants import BASELINE
from outrider.bench.served import Job, Simulated, System
from outrider.bench.simulate import simulate
from outrider.bench.traffic import Load
from outrider.engine.scheduler import Limits
from outrider.planner.forecast import Costs, best_length
from outrider.planner.latency import Latency

SIMULATION_SCHEMA = {"name": "outrider.simulate", "version": 2}
ALPHAS = (0.3, 0.5, 0.7, 0.8, 0.9)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Machine:
    """What all runs have in common."""

    latency: Latency
    """What passes take, and what the planner goes by."""
    limits: Limits
    reading: Latency | None = None
    """What passes take whose rows only read; None: as long as others."""
    overhead: float | None = None
    """Milliseconds of a step outside of passes, for each sequence that emits; None: as assumed."""

    stretch: float = 1.0
    """Mean time of passes over what the curves say, which are medians."""

    def outside(self, assumed: Assumed, load: Load, *, plain: bool) -> float:
        """Return the overhead under a load, of plain decoding or of the drafter."""
        return assumed.overhead(load, plain=plain) if self.overhead is None else self.overhead


def simulated_rows(
    machine: Machine, assumed: Assumed, name: str, asked: Mapping[Load, Sequence[Job]], *, seed: int = 0
) -> list[dict[str, Any]]:
    """Return a row for each load of plain decoding, and one of the drafter `name` beside it.

    `asked`: the requests of each load, in the order in which they come.
    """
    rows = []
    for load, jobs in asked.items():
        baseline: Simulated | None = None
        for drafter in (BASELINE, name):
            plain = drafter == BASELINE
            system = System(
                machine.latency,
                machine.limits,
                None if plain else assumed.drafter(load),
                machine.outside(assumed, load, plain=plain),
                machine.reading,
                machine.stretch,
            )
            run = _run(load, system, jobs, seed)
            baseline = baseline or run
            ratio = (run.tokens / run.milliseconds) / (baseline.tokens / baseline.milliseconds)
            rows.append({"drafter": drafter, **asdict(load), **_figures(run), "throughput_over_plain": ratio})
    return rows


def assumed_rows(machine: Machine, assumed: Assumed, loads: Iterable[Load]) -> list[dict[str, Any]]:
    """Return what is assumed of the drafter and of plain decoding under each load."""
    return [
        {
            **asdict(load),
            **assumed.document(load),
            "overhead": machine.outside(assumed, load, plain=False),
            "plain_overhead": machine.outside(assumed, load, plain=True),
        }
        for load in loads
    ]


def _run(load: Load, system: System, jobs: Sequence[Job], seed: int) -> Simulated:
    arrivals = load.arrivals(len(jobs), seed)
    moments = None if arrivals is None else [1000 * moment for moment in arrivals]
    return simulate(system, jobs, clients=load.clients, arrivals=moments, seed=seed)


def _figures(run: Simulated) -> dict[str, Any]:
    return {
        "requests": len(run.served),
        "tokens_per_second": 1000 * run.tokens / run.milliseconds,
        "time_to_first_token": _spread(request.time_to_first_token for request in run.served),
        "time_per_token": _spread(request.time_per_token for request in run.served),
        "sequences_per_step": run.rows / run.emitting,
        "mean_accepted_length": run.tokens / run.rows,
        "nodes_per_step": run.nodes / run.emitting,
        "undrafted_steps": run.undrafted / run.emitting,
        "pass_ms": run.in_passes / run.steps,
    }


def _spread(milliseconds: Iterable[float | None]) -> dict[str, float | None]:
    """Return mean and percentiles in seconds; None for each where there are no values."""
    found = [each / 1000 for each in milliseconds if each is not None]
    if not found:
        return dict.fromkeys(["mean", *(f"p{p}" for p in PERCENTILES)])
    points = np.percentile(found, PERCENTILES)
    named = {f"p{p}": float(point) for p, point in zip(PERCENTILES, points, strict=True)}
    return {"mean": float(np.mean(found)), **named}


def regimes(costs: Costs, contexts: Sequence[int], budget: int) -> list[dict[str, Any]]:
    """Return the best length and its speed-up by context, batch and α: where drafts pay, and how much."""
    return [
        {"context": context, "batch": batch, "alpha": alpha, "length": best.length, "speedup": best.speedup}
        for context in contexts
        for batch in BATCHES
        for alpha in ALPHAS
        for best in [best_length(replace(costs, context=context), [alpha], batch, budget)]
    ]


def simulation_table(document: dict[str, Any]) -> Table:
    """Return the table of loads, plain decoding beside the drafter."""
    table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("load", no_wrap=True)
    table.add_column("drafter", overflow="fold")
    for heading in ("tokens/s", "over plain", "first token", "ms a token", "τ", "nodes", "no draft"):
        table.add_column(heading, justify="right")
    for row in document["results"]:
        load = f"{row['clients']} at once" if row["rate"] is None else f"{row['rate']:g}/s"
        per_token = row["time_per_token"]["mean"]
        table.add_row(
            load if row["drafter"] == BASELINE else "",
            row["drafter"],
            f"{row['tokens_per_second']:.1f}",
            f"{row['throughput_over_plain']:.2f}×",
            f"{row['time_to_first_token']['mean']:.2f} s",
            "–" if per_token is None else f"{1000 * per_token:.1f}",
            f"{row['mean_accepted_length']:.2f}",
            f"{row['nodes_per_step']:.1f}",
            f"{row['undrafted_steps']:.0%}",
        )
    return table


def regime_tables(document: dict[str, Any]) -> list[Table]:
    """Return a table for each context: α down, batches across, the speed-up and its draft length."""
    tables = []
    for context in dict.fromkeys(row["context"] for row in document["regimes"]):
        own = {(r["alpha"], r["batch"]): r for r in document["regimes"] if r["context"] == context}
        table = Table(
            title=f"where drafts pay, context {context}: speed-up, and best length",
            title_justify="left",
            header_style="bold",
            box=SIMPLE_HEAD,
            pad_edge=False,
        )
        table.add_column("α", justify="right")
        for batch in BATCHES:
            table.add_column(f"batch {batch}", justify="right")
        for alpha in ALPHAS:
            cells = [own[alpha, batch] for batch in BATCHES]
            table.add_row(f"{alpha:g}", *(f"{r['speedup']:.2f}× {r['length']:2}" for r in cells))
        tables.append(table)
    return tables
