"""A run as a picture: its loss, and how often drafts would be kept, by depth."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

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
    path = run.inside / "training.png"
    try:
        figure.savefig(path, dpi=120)
    except OSError:
        return None  # a picture is not worth failing for
    return path
