"""A run as a picture: its loss, and how often drafts would be kept, by depth; and several runs as one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from outrider.train.run import Run


def draw(run: Run) -> Path | None:
    """Draw a run's log beside it and return where; None without matplotlib (the `plot` extra) or a log."""
    lines = run.lines()
    steps = [line for line in lines if "loss" in line]
    looks = [line for line in lines if "held_loss" in line]
    if find_spec("matplotlib") is None or not steps:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    losses, shares = figure.subplots(1, 2)
    losses.plot(
        [line["step"] for line in steps], [line["loss"] for line in steps], alpha=0.5, label="learned"
    )
    losses.plot(
        [line["step"] for line in looks], [line["held_loss"] for line in looks], marker="o", label="held out"
    )
    losses.set(xlabel="step", title="loss", yscale="log")
    for depth in range(len(looks[0]["kept"]) if looks else 0):
        shares.plot(
            [line["step"] for line in looks],
            [line["kept"][depth] for line in looks],
            marker="o",
            label=f"depth {depth + 1}",
        )
    shares.set(xlabel="step", title="kept, held-out texts", ylim=(0, 1))
    for axes in (losses, shares):
        axes.grid(alpha=0.3)
        axes.legend(loc="upper right" if axes is losses else "upper left")
    return _saved(figure, run.inside / "training.png")


def draw_scaling(document: dict[str, Any], directory: Path) -> Path | None:
    """Draw what `outrider train scale` found into a directory and return where; None without matplotlib."""
    if find_spec("matplotlib") is None:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    shares, gains = figure.subplots(1, 2)
    for size in document["sizes"]:
        runs, ahead = size["runs"], size["forecasts"]
        [line] = shares.plot(
            [run["tokens"] for run in runs], [run["kept"][0] for run in runs], "o", label=size["name"]
        )
        colour = line.get_color()
        shares.plot([row["tokens"] for row in ahead], [row["kept"][0] for row in ahead], "--", color=colour)
        minutes = [row["minutes"] for row in ahead]
        gains.plot(minutes, [row["speedup"] for row in ahead], "o--", color=colour, label=size["name"])
        low, high = ([row[name] for row in ahead] for name in ("speedup_low", "speedup_high"))
        gains.fill_between(minutes, low, high, color=colour, alpha=0.15)
    shares.set(xlabel="tokens learned from", title="kept at depth 1; dashed: the law", xscale="log")
    gains.set(xlabel="minutes of learning", title="speed-up foretold, one standard error", xscale="log")
    for axes in (shares, gains):
        axes.grid(alpha=0.3)
        axes.legend()
    return _saved(figure, directory / "scale.png")


def _saved(figure: Any, path: Path) -> Path | None:
    try:
        figure.savefig(path, dpi=120)
    except OSError:
        return None  # a picture is not worth failing for
    return path
