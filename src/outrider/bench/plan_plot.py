"""The document of a plan as a picture, or as a page that needs nothing beside it."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import Any

from rich.console import Console

from outrider.bench.plan import plan_tables
from outrider.errors import LoadError

KINDS = (".png", ".html")
"""What a plan is drawn as."""


def plot_plan(document: dict[str, Any], path: Path) -> None:
    """Draw a plan to a .png, or to an .html page with its tables; LoadError where it cannot be saved."""
    picture = picture_of(document)
    content = picture if path.suffix.lower() == ".png" else page(document, picture).encode()
    try:
        path.write_bytes(content)
    except OSError as error:
        raise LoadError(f"cannot write {str(path)!r}: {error.strerror}; choose another --plot") from error


def picture_of(document: dict[str, Any]) -> bytes:
    """Return a PNG: speed-up by draft length, a line for each batch; and passes by rows with their bounds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    roofline = document["roofline"]
    figure = Figure(figsize=(10 if roofline else 5.5, 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2 if roofline else 1, squeeze=False)[0]
    for best in document["best"]:
        own = [row for row in document["forecasts"] if row["batch"] == best["batch"]]
        [line] = panels[0].plot(
            [row["length"] for row in own], [row["speedup"] for row in own], label=f"batch {best['batch']}"
        )
        panels[0].plot(best["length"], best["speedup"], "o", color=line.get_color())
    panels[0].axhline(1.0, color="grey", linewidth=0.8)
    panels[0].set(xlabel="drafted tokens of each sequence", title="speed-up over plain decoding")
    panels[0].legend(fontsize="small")
    if roofline:
        _draw_bounds(panels[1], roofline["passes"])
    figure.suptitle(f"{document['provenance']['model']['name']}, {document['drafter']}")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _draw_bounds(axes: Any, passes: list[dict[str, Any]]) -> None:
    rows = [each["rows"] for each in passes]
    for name, style in (("measured", "o-"), ("memory", "--"), ("compute", "--")):
        times = [each[name] for each in passes]
        if None not in times:
            axes.plot(rows, times, style, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(rows, list(map(str, rows)))
    axes.minorticks_off()
    axes.set(xlabel="rows of a pass", title="milliseconds, and what bounds them")
    axes.legend(fontsize="small")


def page(document: dict[str, Any], picture: bytes) -> str:
    """Return a page with the picture inside it and the tables as text; it loads nothing from elsewhere."""
    text = io.StringIO()
    console = Console(file=text, width=160, highlight=False, markup=False, emoji=False, color_system=None)
    for part in plan_tables(document):
        console.print(part)
    title = html.escape(f"{document['provenance']['model']['name']}, {document['drafter']}")
    shown = base64.b64encode(picture).decode()
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        f'<body><h1>{title}</h1><img alt="speed-up and bounds" style="max-width:100%" '
        f'src="data:image/png;base64,{shown}"><pre>{html.escape(text.getvalue())}</pre></body></html>\n'
    )
