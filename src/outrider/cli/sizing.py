"""What `outrider train scale` works out from its short runs, as a document and as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from outrider.cli.train_progress import duration

if TYPE_CHECKING:
    from rich.table import Table

    from outrider.planner.forecast import Costs
    from outrider.train.scaling import Law
    from outrider.train.sizing import ShortRun

SCHEMA = {"name": "outrider.train.scale", "version": 1}
FURTHER = (1, 4, 16)
"""Of the minutes of the longest run, how far is looked ahead; acceptance beyond is anybody's guess."""
ENOUGH = 0.01
"""Twice the tokens that bring less than this share of speed-up are not needed."""
MOST_DOUBLINGS = 8
LONGEST = 15
"""Of the drafts looked at."""


def scale_document(
    runs: Sequence[ShortRun], costs: Mapping[str, Costs], law: Law, provenance: dict[str, Any]
) -> dict[str, Any]:
    """Return what the runs gave, the law, and what each size brings after more minutes of learning.

    `costs` by size: the target's passes and the measured ones of its head.
    """
    sizes = [_Size([run for run in runs if run.size.name == name], costs[name], law) for name in costs]
    longest = max(size.minutes for size in sizes)
    first = next(iter(costs.values()))
    ahead = [{size.name: size.after(longest * times) for size in sizes} for times in FURTHER]
    return {
        "schema": SCHEMA,
        "context": first.context,
        "target_milliseconds": first.verify(1, 0),
        "law": {name: getattr(law, name) for name in ("by_parameters", "by_tokens", "left_out", "spread")},
        "sizes": [
            {**size.about, "forecasts": [found[size.name] for found in ahead], "enough": size.enough()}
            for size in sizes
        ],
        "best": [
            {"minutes": longest * times, "size": _best(found)}
            for times, found in zip(FURTHER, ahead, strict=True)
        ],
        "provenance": provenance,
    }


def _best(found: Mapping[str, dict[str, Any]]) -> str | None:
    """Return the size of the highest speed-up; None where no draft of any pays."""
    best = max(found, key=lambda name: found[name]["speedup"])
    return best if found[best]["length"] else None


class _Size:
    """One size: its runs, and what they foretell."""

    def __init__(self, runs: Sequence[ShortRun], costs: Costs, law: Law) -> None:
        self._runs, self._costs, self._law = runs, costs, law
        self._last = max(runs, key=lambda run: run.point.tokens)
        self.name = self._last.size.name
        self.minutes = self._last.seconds / 60
        self._rate = self._last.point.tokens / self.minutes

    @property
    def about(self) -> dict[str, Any]:
        point = self._last.point
        return {
            "name": self.name,
            "parameters": point.parameters,
            "reach": list(point.reach),
            "tokens_per_minute": self._rate,
            "draft_milliseconds": self._costs.drafting(1),
            "c": self._costs.drafting(1) / self._costs.verify(1, 0),
            "runs": [
                {
                    "directory": run.directory.name,
                    "tokens": run.point.tokens,
                    "minutes": run.seconds / 60,
                    **{name: list(asdict(run.judgement)[name]) for name in ("kept", "agreeing")},
                }
                for run in self._runs
            ],
        }

    def after(self, minutes: float) -> dict[str, Any]:
        """Return what the head brings after so many minutes of learning."""
        from outrider.planner.forecast import best_length, forecast

        tokens, point = minutes * self._rate, self._last.point
        low, kept, high = (
            self._law.kept(point.parameters, tokens, point.reach, errors) for errors in (-1.0, 0.0, 1.0)
        )
        best = best_length(self._costs, kept, 1, LONGEST)
        return {
            "minutes": minutes,
            "tokens": round(tokens),
            "extrapolated": tokens > 1.001 * point.tokens,
            "kept": list(kept),
            "length": best.length,
            "tokens_per_pass": best.tokens,
            "speedup": best.speedup,
            "speedup_low": forecast(self._costs, low, 1, best.length).speedup,
            "speedup_high": forecast(self._costs, high, 1, best.length).speedup,
        }

    def enough(self) -> dict[str, Any] | None:
        """Return the least of doubled minutes after which twice as many bring little; None if none is."""
        if self._law.by_tokens <= 0:
            return None
        minutes = self.minutes
        for _ in range(MOST_DOUBLINGS):
            now, then = self.after(minutes), self.after(2 * minutes)
            if now["length"] and then["speedup"] < (1 + ENOUGH) * now["speedup"]:
                return {name: now[name] for name in ("minutes", "tokens", "speedup", "extrapolated")}
            minutes *= 2
        return None


def scale_tables(document: dict[str, Any]) -> list[Table | str]:
    """Return what people are shown."""
    return [_runs_table(document), _forecast_table(document), *_words(document)]


def _runs_table(document: dict[str, Any]) -> Table:
    table = _table("short runs, on held-out texts", "size", "parameters", "tokens", "time", "kept by depth")
    for size in document["sizes"]:
        for run in size["runs"]:
            kept = " ".join(f"{share:.3f}" for share in run["kept"])
            parameters, time = f"{size['parameters'] / 1e6:.2f} M", duration(60 * run["minutes"])
            table.add_row(size["name"], parameters, f"{run['tokens']:,}", time, kept)
        reach = " ".join(f"{share:.3f}" for share in size["reach"])
        table.add_row(size["name"], "", "", "", f"{reach} at most")
    return table


def _forecast_table(document: dict[str, Any]) -> Table:
    headings = ("size", "time", "tokens", "kept by depth", "k", "tokens a pass", "c", "speed-up", "")
    table = _table("by the law that was fitted to them", *headings)
    for at in range(len(FURTHER)):
        for size in document["sizes"]:
            row = size["forecasts"][at]
            best = document["best"][at]["size"] == size["name"]
            table.add_row(
                size["name"],
                duration(60 * row["minutes"]),
                f"{row['tokens']:,}",
                " ".join(f"{share:.3f}" for share in row["kept"]),
                str(row["length"]),
                f"{row['tokens_per_pass']:.2f}",
                f"{size['c']:.3f}",
                f"{row['speedup']:.2f}× ({row['speedup_low']:.2f}–{row['speedup_high']:.2f}){' *' * best}",
                "extrapolated" if row["extrapolated"] else "in the runs' range",
            )
    return table


def _words(document: dict[str, Any]) -> Iterator[str]:
    law = document["law"]
    powers = f"parameters^{-law['by_parameters']:+.3f} · tokens^{-law['by_tokens']:+.3f}"
    yield f"law: what is missing goes with {powers}"
    if law["left_out"] is not None:
        yield f"its error: a run foretold from the others is off by {law['left_out']:.3f} (root mean square)"
    if law["by_tokens"] <= 0:
        yield "more tokens did not help in these runs, so they don't tell what longer ones bring; give more"
    for best in document["best"]:
        learned = f"with {duration(60 * best['minutes'])} to learn"
        if best["size"] is None:
            yield f"{learned} no head pays"
            continue
        size = next(size for size in document["sizes"] if size["name"] == best["size"])
        row = next(row for row in size["forecasts"] if row["minutes"] == best["minutes"])
        gain = f"{row['speedup']:.2f}×" + ", an extrapolation" * row["extrapolated"]
        yield f"{learned} {best['size']} pays most ({gain})"
    for size in document["sizes"]:
        if (found := size["enough"]) is not None:
            far = " (an extrapolation)" * found["extrapolated"]
            where = f"{size['name']}: from {found['tokens']:,} tokens, {duration(60 * found['minutes'])}, on"
            yield f"{where}, twice as many bring less than {ENOUGH:.0%}{far}"
    yield "times are those of passes; the work between them, and other programs, come on top"


def _table(title: str, *headings: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table
