"""A load document as a picture, drawn by matplotlib (the `plot` extra)."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from outrider.errors import CapabilityError, LoadError, OptionError

PANELS: tuple[tuple[str, Callable[[dict[str, Any]], float | None]], ...] = (
    ("tokens per second", lambda row: row["tokens_per_second"]),
    ("ms per output token, median", lambda row: _milliseconds(row["time_per_token"]["p50"])),
    ("ms to the first token, median", lambda row: _milliseconds(row["time_to_first_token"]["p50"])),
)
LOADS = (("clients", "clients at once"), ("rate", "requests per second"))


KINDS = (".png", ".svg", ".pdf")
"""What a load is drawn as."""


def check_plot(path: Path, *kinds: str) -> None:
    """Refuse a picture that could not be drawn, before anything is measured for it; `kinds`: as in ".png"."""
    if path.suffix.lower() not in kinds:
        *first, last = kinds
        raise OptionError(f"--plot {str(path)!r}: name a {', '.join(first)} or {last} file")
    if find_spec("matplotlib") is None:
        raise CapabilityError('--plot needs matplotlib; run pip install "matplotlib>=3.8", or drop --plot')


def plot_load(document: dict[str, Any], path: Path) -> None:
    """Draw throughput and times by the load, a line for each drafter; LoadError where it cannot be saved."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = document["results"]
    loads = [(key, label) for key, label in LOADS if any(row[key] is not None for row in rows)]
    figure = Figure(figsize=(4.2 * len(PANELS), 3.4 * len(loads)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(loads), len(PANELS), squeeze=False)
    for (key, label), line in zip(loads, panels, strict=True):
        for (title, value), axes in zip(PANELS, line, strict=True):
            for drafter in dict.fromkeys(row["drafter"] for row in rows):
                own = [row for row in rows if row["drafter"] == drafter and row[key] is not None]
                points = [(row[key], value(row)) for row in own if value(row) is not None]
                if points:
                    axes.plot(*zip(*points, strict=True), marker="o", label=drafter)
            axes.set(xlabel=label, title=title)
            axes.set_xscale("log", base=2)
            ticks = sorted({row[key] for row in rows if row[key] is not None})
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)
    panels[0][0].legend()
    figure.suptitle(f"{document['provenance']['model']['name']}, {document['suite']['name']}")
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise LoadError(f"cannot write {str(path)!r}: {error.strerror}; choose another --plot") from error


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds
