"""What `outrider plan` works out, as a document and as tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.bench.roofline import ReadableTarget, measure_roofline
from outrider.models.base import Target
from outrider.models.config import DecoderConfig
from outrider.planner.forecast import (
    MOST_BATCH,
    Bound,
    Costs,
    Work,
    best_length,
    best_shape,
    bounds,
    forecast,
    operation_rate,
    stops_paying,
)
from outrider.planner.sequoia import Acceptance

PLAN_SCHEMA = {"name": "outrider.plan", "version": 1}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the planner."""

    drafter: str
    acceptance: Acceptance
    source: str
    """Where `acceptance` comes from: "given", or the name of a result file."""
    batches: Sequence[int]
    budget: int
    """Longest draft, and most nodes of a tree, of one sequence."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What this machine can do for a model, and what bounds the model's passes by that."""

    bandwidth: float
    """Bytes a millisecond that are read."""
    rate: float | None
    """Operations a millisecond in long passes; None where more rows were not seen to take longer."""
    bounds: Sequence[Bound]


def weights_of(config: DecoderConfig) -> int:
    """Return the numbers in the matrices of a decoder's layers and head, the embedding left aside."""
    heads = 2 * (config.heads + config.kv_heads)
    layer = config.hidden_size * (heads * config.head_dim + 3 * config.intermediate_size)
    return config.layers * layer + config.hidden_size * config.vocab_size


def machine_of(target: Target, costs: Costs) -> Machine:
    """Measure how fast a target's bytes can be read, and return the bounds of its passes.

    CapabilityError where that cannot be measured (see `measure_roofline`).
    """
    measured = measure_roofline(target, context=costs.context, rows=(1,))
    assert isinstance(target, ReadableTarget)
    work = Work(measured.weight_bytes, measured.cache_bytes, weights_of(target.config))
    bandwidth = (work.weight_bytes + work.cache_bytes) / (1000 * statistics.median(measured.read))
    rate = operation_rate(costs.target, work.weights)
    return Machine(bandwidth, rate, bounds(costs, work, costs.target.rows, bandwidth=bandwidth, rate=rate))


def plan_document(
    question: Question, costs: Costs, machine: Machine | None, provenance: dict[str, Any]
) -> dict[str, Any]:
    """Return the forecasts of every length and batch, the best ones, and the bounds of passes."""
    alphas = [row[0] for row in question.acceptance]
    lengths = range(question.budget + 1)
    every = [forecast(costs, alphas, batch, length) for batch in question.batches for length in lengths]
    return {
        "schema": PLAN_SCHEMA,
        "drafter": question.drafter,
        "acceptance": {"source": question.source, "by_depth": [list(row) for row in question.acceptance]},
        "budget": question.budget,
        "context": costs.context,
        "latency": asdict(costs.target),
        "draft_latency": None if costs.draft is None else asdict(costs.draft),
        "forecasts": [asdict(each) for each in every],
        "best": [_best(question, costs, alphas, batch) for batch in question.batches],
        "stops_paying": {
            "batch": stops_paying(costs, alphas, question.budget),
            "looked_up_to": MOST_BATCH,
            "measured_rows": costs.target.rows[-1],
        },
        "roofline": None if machine is None else _roofline(machine),
        "provenance": provenance,
    }


def _best(question: Question, costs: Costs, alphas: Sequence[float], batch: int) -> dict[str, Any]:
    chain = best_length(costs, alphas, batch, question.budget)
    tree = best_shape(costs, question.acceptance, batch, question.budget)
    return {
        **asdict(chain),
        "draft_milliseconds": costs.drafting(batch),
        "tree": {"parents": list(tree.parents), "tokens": tree.tokens, "speedup": tree.tokens / tree.time},
    }


def _roofline(machine: Machine) -> dict[str, Any]:
    bandwidth, rate = machine.bandwidth, machine.rate
    return {
        "gigabytes_per_second": bandwidth / 1e6,
        "gigaoperations_per_second": None if rate is None else rate / 1e6,
        "passes": [{**asdict(bound), "limit": bound.limit} for bound in machine.bounds],
    }


def speedup_table(document: dict[str, Any]) -> Table:
    """Return the table of speed-ups, lengths down and batches across, the best of each batch marked."""
    best = {row["batch"]: row["length"] for row in document["best"]}
    found = {(row["length"], row["batch"]): row for row in document["forecasts"]}
    table = _table(f"speed-up of {document['drafter']} over plain decoding; * best", "k", "E[τ]")
    for batch in best:
        table.add_column(f"batch {batch}", justify="right")
    for length in range(document["budget"] + 1):
        cells = [
            f"{found[length, batch]['speedup']:.2f}×{'*' if best[batch] == length else ' '}" for batch in best
        ]
        table.add_row(str(length), f"{found[length, next(iter(best))]['tokens']:.2f}", *cells)
    return table


def best_table(document: dict[str, Any]) -> Table:
    """Return the table of what is best for each batch: the chain, and the tree."""
    table = _table("best draft of each sequence", "batch", "k", "E[τ]", "step, ms", "speed-up")
    for heading in ("tree nodes", "E[τ]", "speed-up"):
        table.add_column(heading, justify="right")
    for row in document["best"]:
        tree = row["tree"]
        table.add_row(
            str(row["batch"]),
            str(row["length"]),
            f"{row['tokens']:.2f}",
            f"{row['milliseconds']:.2f}",
            f"{row['speedup']:.2f}×",
            str(len(tree["parents"])),
            f"{tree['tokens']:.2f}",
            f"{tree['speedup']:.2f}×",
        )
    return table


def bounds_table(document: dict[str, Any]) -> Table:
    """Return the table of what passes of one sequence could take at least, and take."""
    roofline = document["roofline"]
    speeds = [
        f"{roofline[name]:.1f} {unit}"
        for name, unit in (("gigabytes_per_second", "GB/s"), ("gigaoperations_per_second", "Gop/s"))
        if roofline[name] is not None
    ]
    title = ", ".join(["bounds of a pass", *speeds])
    table = _table(title, "rows", "MB", "Mop", "memory, ms", "compute, ms", "bound", "measured, ms")
    for row in roofline["passes"]:
        table.add_row(
            str(row["rows"]),
            f"{row['bytes'] / 1e6:.1f}",
            f"{row['operations'] / 1e6:.0f}",
            *("–" if row[name] is None else f"{row[name]:.2f}" for name in ("memory", "compute")),
            row["limit"] or "–",
            f"{row['measured']:.2f}",
        )
    return table


def plan_tables(document: dict[str, Any]) -> list[Table | str]:
    """Return what people are shown: the tables, and what is to be said under them."""
    end = document["stops_paying"]
    batch, most = end["batch"], end["looked_up_to"]
    return [
        speedup_table(document),
        best_table(document),
        *([bounds_table(document)] if document["roofline"] else []),
        f"the smallest batch at which no draft pays: {batch if batch else f'none up to {most}'}",
        f"passes over more than {end['measured_rows']} rows were not measured: their times are extrapolated",
    ]


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table
