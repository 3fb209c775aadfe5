"""What a load benchmark tells of a drafter for a simulation of it: written and read here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outrider.bench.load import Measured
from outrider.bench.stats import add_counts
from outrider.bench.traces import Trace, TracedDraft
from outrider.bench.traffic import Load
from outrider.errors import LoadError, OptionError

MOST_TRACES = 64
"""Requests of which a result holds traces."""


def told_of_drafts(own: Sequence[Measured]) -> dict[str, Any]:
    """Return the fields of one contestant under one load, from its rounds.

    α at a depth is the share of the drafts that reached it, and kept all before it, which kept it too.
    Traces are those of the first round.
    """
    steps = [m.run.steps for m in own]
    rows = sum(s.rows for s in steps)
    reached, tried, kept = (
        add_counts([getattr(m.run.depths, name) for m in own]) for name in ("reached", "tried", "kept")
    )
    noted = [m.noted for m in own if m.noted is not None]
    asks, asked = sum(d.asks for d in noted), sum(d.seconds for d in noted)
    outside = sum(s.seconds - s.target_seconds for s in steps) - asked
    return {
        "drafted_per_position": reached,
        "accepted_per_position": kept,
        "alphas": [k / t if t else None for k, t in zip(kept, tried, strict=True)],
        "asks_per_row": asks / rows,
        "answered_asks": sum(d.answered for d in noted) / asks if asks else None,
        "ask_ms": 1000 * asked / asks if asks else None,
        "overhead_ms": 1000 * outside / rows,
        "budget": noted[0].budget if noted else None,
        "free_nodes": noted[0].free if noted else None,
        "traces": [_written(trace) for trace in noted[0].traces[:MOST_TRACES]] if noted else [],
    }


def _written(trace: Trace) -> dict[str, Any]:
    return {
        "prompt_tokens": trace.prompt_tokens,
        "tokens": trace.tokens,
        "max_tokens": trace.most,
        "drafts": [draft.written() for draft in trace.drafts],
    }


@dataclass(frozen=True, slots=True)
class ToldRow:
    """What one row of a result tells."""

    load: Load
    requests: int
    traces: tuple[Trace, ...]
    ask_milliseconds: float
    overhead: float
    """Milliseconds of a step outside of passes and of the drafter, for each sequence that emits."""
    budget: int
    free: bool


@dataclass(frozen=True, slots=True)
class LoadTold:
    """What a result of `outrider bench load` tells of one drafter."""

    rows: tuple[ToldRow, ...]
    max_tokens: int
    running: int

    def near(self, load: Load) -> ToldRow:
        """Return the row of a load, else that of the load most like it."""
        return min(self.rows, key=lambda row: _unlike(row.load, load))


def _unlike(one: Load, other: Load) -> tuple[bool, float]:
    """Return by how much two loads differ: in kind first, then by how many times one is the other."""
    if (one.clients is None) != (other.clients is None):
        return True, one.clients or 0.0  # the lightest of those that there are
    ours, theirs = one.clients or one.rate or 1.0, other.clients or other.rate or 1.0
    return False, max(ours / theirs, theirs / ours)


def load_told(document: Mapping[str, Any], name: str, drafter: str) -> LoadTold:
    """Read what the document of a load benchmark tells of a drafter; `name` is that of its file.

    LoadError where it holds no such drafter; OptionError where it was written before traces were.
    """
    rows = [row for row in document["results"] if row["drafter"] == drafter]
    if not rows:
        known = ", ".join(dict.fromkeys(row["drafter"] for row in document["results"]))
        raise LoadError(f"{name!r} has no figures of {drafter!r}; it has those of: {known}")
    if not all(row.get("traces") for row in rows):
        raise OptionError(f"{name!r} holds no traces of drafts; measure it again with outrider bench load")
    return LoadTold(
        tuple(
            ToldRow(
                Load(row["clients"], row["rate"]),
                row["requests"],
                tuple(_read(trace) for trace in row["traces"]),
                row["ask_ms"] or 0.0,
                row["overhead_ms"],
                row["budget"],
                row["free_nodes"],
            )
            for row in rows
        ),
        document["sampling"]["max_tokens"],
        document["running"],
    )


def _read(row: Mapping[str, Any]) -> Trace:
    drafts = tuple(TracedDraft.read(text) for text in row["drafts"])
    return Trace(row["prompt_tokens"], row["tokens"], drafts, row.get("max_tokens"))
