"""Result documents as tables for people."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.bench.result import OVERALL


def results_table(document: dict[str, Any]) -> Table:
    """Return the table of a bench document, task by task."""
    table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("task", no_wrap=True)
    table.add_column("drafter", overflow="fold")
    for heading in ("tokens/s", "end to end", "first token", "τ", "kept", "same", "speedup"):
        table.add_column(heading, justify="right")
    table.add_column("95 %", justify="right", no_wrap=True)
    rows = document["results"]
    categories = list(dict.fromkeys(row["category"] for row in rows))
    for category in sorted(categories, key=lambda name: name == OVERALL):
        for row in (row for row in rows if row["category"] == category):
            speedup = row["speedup"]
            table.add_row(
                category if row["drafter"] == rows[0]["drafter"] else "",
                row["drafter"],
                _number(row["decode_tokens_per_second"], ".1f"),
                _number(row["end_to_end_tokens_per_second"], ".1f"),
                _number(row["time_to_first_token"], ".2f", " s"),
                _number(row["mean_accepted_length"], ".2f"),
                _number(row["acceptance_rate"], ".0%"),
                _number(row["identical_to_plain"], ".0%"),
                "–" if speedup is None else f"{speedup['median']:.2f}×",
                ""
                if speedup is None or row["prompts"] < 2
                else f"{speedup['low']:.2f}–{speedup['high']:.2f}",
                style="bold" if category == OVERALL else None,
            )
        table.add_section()
    return table


def load_table(document: dict[str, Any]) -> Table:
    """Return the table of a load document, load by load; seconds are medians unless said otherwise."""
    table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("load", no_wrap=True)
    table.add_column("drafter", overflow="fold")
    headings = ("tokens/s", "first token", "ms/token", "gap p99", "τ", "nodes", "undrafted", "same", "ratio")
    for heading in headings:
        table.add_column(heading, justify="right")
    table.add_column("95 %", justify="right", no_wrap=True)
    rows = document["results"]
    for row in rows:
        first = row["drafter"] == rows[0]["drafter"]
        if first:
            table.add_section()
        ratio = row["throughput_over_plain"]
        per_token = row["time_per_token"]["p50"]
        table.add_row(
            _load_words(row) if first else "",
            row["drafter"],
            _number(row["tokens_per_second"], ".1f"),
            _number(row["time_to_first_token"]["p50"], ".2f", " s"),
            _number(None if per_token is None else 1000 * per_token, ".1f"),
            _number(row["gap"]["p99"], ".2f", " s"),
            _number(row["mean_accepted_length"], ".2f"),
            _number(row["nodes_per_step"], ".1f"),
            _number(row["undrafted_steps"], ".0%"),
            _number(row["identical_to_plain"], ".0%"),
            f"{ratio['median']:.2f}×",
            f"{ratio['low']:.2f}–{ratio['high']:.2f}" if row["rounds"] > 1 else "",
        )
    return table


def _load_words(row: dict[str, Any]) -> str:
    return f"{row['clients']} at once" if row["clients"] is not None else f"{row['rate']:g}/s"


def curve_table(document: dict[str, Any]) -> Table:
    """Return the table of latency curves: counts of rows down, kernels and their contexts across."""
    points = {(point["kernel"], point["context"], point["rows"]): point for point in document["curves"]}
    blocks = list(dict.fromkeys((kernel, context) for kernel, context, _ in points))
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    table.add_column("rows", justify="right")
    for kernel, context in blocks:
        table.add_column(f"{kernel}\nms at {context}", justify="right")
        table.add_column("\nratio", justify="right")
    for rows in sorted({rows for *_, rows in points}):
        cells = [points[*block, rows] for block in blocks]
        table.add_row(
            str(rows),
            *(text for p in cells for text in (f"{p['milliseconds']:.2f}", f"{p['ratio']:.2f}")),
        )
    return table


def steps_table(document: dict[str, Any]) -> Table:
    """Return the table of what a drafter's steps take, as `curve_table`: counts of nodes down."""
    points = {(step["kernel"], step["context"], step["nodes"]): step for step in document["steps"]}
    blocks = list(dict.fromkeys((kernel, context) for kernel, context, _ in points))
    table = Table(
        title=f"one step of {document['drafter']}", title_justify="left", header_style="bold", box=SIMPLE_HEAD
    )
    table.add_column("nodes", justify="right")
    for kernel, context in blocks:
        table.add_column(f"{kernel}\nms at {context}", justify="right")
        table.add_column("\nof a pass", justify="right")
    for nodes in sorted({nodes for *_, nodes in points}):
        cells = [points[*block, nodes] for block in blocks]
        table.add_row(
            str(nodes),
            *(text for p in cells for text in (f"{p['milliseconds']:.2f}", f"{p['share']:.1%}")),
        )
    return table


def roofline_table(document: dict[str, Any]) -> Table:
    """Return the table of a roofline: the read, then the passes as multiples of it."""
    read = document["read"]
    table = Table(
        title=f"{document['kernel']}: {read['bytes'] / 1e6:.1f} MB a pass, "
        f"{read['cache_bytes'] / 1e6:.1f} of them keys and values",
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
    )
    for heading in ("rows", "ms", "best", "GB/s", "over read", "best", "T(n)/T(1)"):
        table.add_column(heading, justify="right")
    for row in ({"rows": "read", "over_read": 1.0, "best_over_read": 1.0, **read}, *document["passes"]):
        table.add_row(
            str(row["rows"]),
            f"{row['milliseconds']:.2f}",
            f"{row['best_milliseconds']:.2f}",
            f"{row['gigabytes_per_second']:.1f}",
            f"{row['over_read']:.2f}×",
            f"{row['best_over_read']:.2f}×",
            f"{row['ratio']:.2f}" if "ratio" in row else "",
        )
    return table


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "–" if value is None else f"{value:{form}}{unit}"
