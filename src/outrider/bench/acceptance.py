"""How often drafted tokens are kept: as it was written down, or as a benchmark counted it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.bench.contestants import BASELINE
from outrider.bench.result import BENCH_SCHEMA, OVERALL, read_json
from outrider.errors import LoadError, OptionError


def parse_acceptance(text: str) -> list[list[float]]:
    """Return what is written as `0.8,0.7` (by depth), or `0.6/0.2,0.5/0.1` (by depth, then by rank).

    OptionError for what is no chance, and where the chances of one depth sum to more than 1.
    """
    try:
        rows = [[float(chance) for chance in depth.split("/")] for depth in text.split(",")]
    except ValueError:
        raise OptionError(f"--acceptance {text!r}: write chances by depth, as in 0.8,0.7,0.6") from None
    if not all(0 <= chance <= 1 for row in rows for chance in row):
        raise OptionError(f"--acceptance {text!r}: a chance is a number from 0 to 1")
    if any(sum(row) > 1 + 1e-9 for row in rows):
        raise OptionError(
            f"--acceptance {text!r}: of one depth one rank at most is kept, so they sum to 1 at most"
        )
    return rows


@dataclass(frozen=True, slots=True)
class Counted:
    """What a document of `outrider bench run` tells of a drafter, over all tasks."""

    acceptance: list[list[float]]
    """α by depth, one child a node."""
    drafted_share: float
    """Share of the passes in which it drafted anything."""
    overhead: float
    """Milliseconds of a step outside of the target's pass."""
    plain_overhead: float
    """The same of plain decoding."""


def counted_in(path: Path, drafter: str) -> Counted:
    """Read what a result tells of a drafter; LoadError for a file without such figures.

    α at a depth is the share of the drafts that got there which kept it. How many got there is counted in two
    ways, drafts that reached the depth and drafts that kept all before it; the smaller count is the most that
    did both, so α is never taken for higher than it was.
    """
    row, plain = _bench_row(path, drafter), _bench_row(path, BASELINE)
    drafted, accepted = row["drafted_per_position"], row["accepted_per_position"]
    if not drafted:
        raise LoadError(
            f"{path.name}: {drafter!r} drafted nothing there; name another drafter or --acceptance"
        )
    there = [drafted[0], *map(min, accepted, drafted[1:])]
    by_depth = [[kept / tried] for kept, tried in zip(accepted, there, strict=True) if tried]
    more = row["mean_accepted_length"] - 1
    passes = sum(accepted) / more if more > 0 else drafted[0]  # each gave one token, and those accepted
    return Counted(
        by_depth,
        min(1.0, drafted[0] / passes),
        row["overhead_ms_per_step"] or 0.0,
        plain["overhead_ms_per_step"] or 0.0,
    )


def _bench_row(path: Path, drafter: str) -> dict[str, Any]:
    document = read_json(path)
    schema = document.get("schema") if isinstance(document, Mapping) else None
    if not isinstance(schema, Mapping) or schema.get("name") != BENCH_SCHEMA["name"]:
        raise LoadError(f"{str(path)!r} is no result of outrider bench run; make one with its --out")
    rows: list[dict[str, Any]] = [row for row in document["results"] if row["category"] == OVERALL]
    found = next((row for row in rows if row["drafter"] == drafter), None)
    if found is None:
        known = ", ".join(row["drafter"] for row in rows)
        raise LoadError(f"{str(path)!r} has no figures of {drafter!r}; it has those of: {known}")
    return found
