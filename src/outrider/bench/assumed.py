"""What a simulation takes for granted of a drafter: chances by depth, or traces of a benchmark under load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from outrider.bench.acceptance import Counted
from outrider.bench.contestants import BASELINE
from outrider.bench.drafting import Chains, Drafting, Replayed
from outrider.bench.load_result import LOAD_SCHEMA
from outrider.bench.load_told import LoadTold, load_told
from outrider.bench.result import read_json
from outrider.bench.served import Job
from outrider.bench.traffic import Load
from outrider.planner.latency import Latency


class Assumed(Protocol):
    """What is known of a drafter, and of plain decoding beside it."""

    def drafter(self, load: Load) -> Drafting:
        """Return the drafter under a load."""
        ...

    def overhead(self, load: Load, *, plain: bool) -> float:
        """Return the milliseconds outside of passes and of the drafter, for each sequence that emits."""
        ...

    def document(self, load: Load) -> dict[str, Any]:
        """Return what is assumed under a load, as it stands in the result."""
        ...


@dataclass(frozen=True, slots=True)
class ByDepth:
    """Chains that are kept as often as a benchmark counted, or as it was written down."""

    counted: Counted
    budget: int
    model: Latency | None = None
    """The curve of a draft model; None for guesses that take no pass."""
    cost: float = 0.0
    """Time of one of its passes over one of the target's."""
    free: bool = False
    """Nodes count as free: nothing is cut."""

    @property
    def alphas(self) -> list[float]:
        """Return α by depth; of several children the first one's."""
        return [row[0] for row in self.counted.acceptance]

    def drafter(self, load: Load) -> Drafting:
        """Return chains, the same under every load."""
        return Chains(self.alphas, self.budget, self.counted.drafted_share, self.model, self.cost, self.free)

    def overhead(self, load: Load, *, plain: bool) -> float:
        """Return what was counted."""
        return self.counted.plain_overhead if plain else self.counted.overhead

    def document(self, load: Load) -> dict[str, Any]:
        """Tell α by depth, and how often there is a draft."""
        return {
            "budget": self.budget,
            "alphas": self.alphas,
            "drafted_share": self.counted.drafted_share,
            "traces": 0,
            "ask_ms": 0.0,
        }


@dataclass(frozen=True, slots=True)
class ByTraces:
    """Drafts of a benchmark under load, replayed: those of the same load, or of the one most like it."""

    told: LoadTold
    plain: LoadTold
    budget: int | None = None
    """Most nodes of one sequence; None: as in the benchmark."""

    def drafter(self, load: Load) -> Drafting:
        """Return the traced drafts."""
        row = self.told.near(load)
        return Replayed(
            row.traces, row.budget if self.budget is None else self.budget, row.ask_milliseconds, row.free
        )

    def overhead(self, load: Load, *, plain: bool) -> float:
        """Return what was measured."""
        return (self.plain if plain else self.told).near(load).overhead

    def document(self, load: Load) -> dict[str, Any]:
        """Tell of how many requests there are traces, and how long a draft takes."""
        row = self.told.near(load)
        return {
            "budget": self.drafter(load).budget,
            "alphas": None,
            "drafted_share": None,
            "traces": len(row.traces),
            "ask_ms": row.ask_milliseconds,
        }

    @property
    def loads(self) -> list[Load]:
        """Return the loads that were measured."""
        return [row.load for row in self.told.rows]

    def jobs(self, load: Load) -> list[Job]:
        """Return the requests that were measured, as many."""
        row = self.told.near(load)
        jobs = [
            Job(trace.prompt_tokens, trace.tokens, max(trace.most or self.told.max_tokens, trace.tokens))
            for trace in row.traces
        ]
        return [jobs[index % len(jobs)] for index in range(row.requests)]


def traces_in(path: Path, drafter: str, budget: int | None = None) -> ByTraces | None:
    """Return what a result of `outrider bench load` tells of a drafter; None where a file is no such result.

    LoadError where it cannot be read or does not know the drafter.
    """
    document = read_json(path)
    schema = document.get("schema") if isinstance(document, Mapping) else None
    if not isinstance(schema, Mapping) or schema.get("name") != LOAD_SCHEMA["name"]:
        return None
    own, plain = (load_told(document, path.name, name) for name in (drafter, BASELINE))
    return ByTraces(own, plain, budget)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is simulated: requests by their lengths, or those of the benchmark."""

    lengths: Sequence[Job] | None
    """None: those that were measured."""
    count: int | None = None

    def jobs(self, load: Load, assumed: Assumed) -> list[Job]:
        """Return the requests of a run, in order (see `Load.listed`)."""
        if self.lengths is not None:
            return load.listed(self.lengths, self.count)
        assert isinstance(assumed, ByTraces)
        measured = assumed.jobs(load)
        return measured if self.count is None else load.listed(measured, self.count)
