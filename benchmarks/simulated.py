"""The simulation against the engine: tokens a second of the same requests, worked out and measured.

    python benchmarks/simulated.py [--model demo] [--weights auto] [--threads N] [--suite own] [--limit N]
                                   [--drafters none,auto] [--concurrency 1,2,4,8,16] [--requests 16]
                                   [--max-tokens 48] [--repeats 3] [--into FILE] [--json]

Each load is measured as by `outrider bench load`, then simulated from its own traces, over latency curves
measured around its rounds: machines that are shared become faster and slower. `ratio` is the simulated
throughput over the measured one, the median of the rounds. `ratio_from_lightest` is the same with drafts,
their times and overheads taken from the first load alone. With --into the document is written to a file; with
--json it is the last line of the output.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import outrider
from outrider.bench.assumed import ByTraces
from outrider.bench.contestants import BASELINE
from outrider.bench.curves import mean_over_median, reading_latency
from outrider.bench.load import Measured, encoded, load_contestants, run_loads
from outrider.bench.load_result import load_document
from outrider.bench.load_told import load_told
from outrider.bench.provenance import provenance
from outrider.bench.result import write_document
from outrider.bench.simulate_result import Machine, simulated_rows
from outrider.bench.suites import Suite, open_suite
from outrider.bench.traffic import Load
from outrider.engine.scheduler import Limits
from outrider.llm import LLM
from outrider.loop.draft.none import NoDrafter
from outrider.models.base import LoadedModel
from outrider.planner.latency import Latency
from outrider.planner.measured import MeasuredLatency, measure_latency
from outrider.sampling.params import SamplingParams

COMPARED = ("tokens_per_second", "mean_accepted_length", "nodes_per_step", "sequences_per_step", "pass_ms")


class Known(MeasuredLatency):
    """A curve that was measured elsewhere."""

    def __init__(self, latency: Latency) -> None:
        self._latency = latency


def usual(found: Sequence[Latency]) -> Latency:
    """Return the median of curves: one may fall into the seconds in which something else runs."""
    times = [statistics.median(column) for column in zip(*(each.milliseconds for each in found), strict=True)]
    per_key = statistics.median(each.per_key for each in found)
    per_cached = statistics.median(each.per_cached for each in found)
    return Latency.of(zip(found[0].rows, times, strict=True), per_key, per_cached)


def compare(model: LoadedModel, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure and simulate every load, over curves of its own; return a row for each load and drafter."""
    names = [BASELINE, *(name for name in arguments.drafters.split(",") if name != BASELINE)]
    loads = [Load(clients=int(count)) for count in arguments.concurrency.split(",")]
    suite = open_suite(arguments.suite).limited(arguments.limit)
    params = SamplingParams(max_tokens=arguments.max_tokens)
    running = max(Limits().running, *(load.clients or 0 for load in loads))
    rows = []
    first: dict[str, ByTraces] = {}
    for load in loads:
        measured, machine = measure(model, names, suite, params, load, running, arguments)
        document = load_document(measured, suite, params, {}, running=running)
        told = {name: load_told(document, "the measurement", name) for name in names}
        for found in document["results"]:
            name = found["drafter"]
            speeds = [run["tokens_per_second"] for run in document["runs"] if run["drafter"] == name]
            found["tokens_per_second"] = statistics.median(speeds)
            own = ByTraces(told[name], told[BASELINE])
            rows.append(compared(found, machine, own, first.setdefault(name, own)))
    return rows


def measure(
    model: LoadedModel,
    names: Sequence[str],
    suite: Suite,
    params: SamplingParams,
    load: Load,
    running: int,
    arguments: argparse.Namespace,
) -> tuple[list[Measured], Machine]:
    """Run the rounds of one load, with the times of passes measured before, between and after them."""
    target = model.target
    curves, stretches = [measure_latency(target)], [mean_over_median(target)]
    latency = Known(curves[0])
    llm = LLM(model, NoDrafter(), drafter_name=BASELINE, rule="auto", budget=None, latency=latency)
    contestants, prompts = load_contestants(llm, names), encoded(llm, suite)
    measured: list[Measured] = []
    for round_ in range(arguments.repeats):
        found = run_loads(contestants, prompts, params, [load], count=arguments.requests, running=running)
        measured += [replace(run, round=round_) for run in found]
        curves.append(measure_latency(target))
        stretches.append(mean_over_median(target))
    reading = reading_latency(target)
    limits = Limits(running=running)
    return measured, Machine(usual(curves), limits, reading, stretch=statistics.mean(stretches))


def compared(found: Mapping[str, Any], machine: Machine, own: ByTraces, first: ByTraces) -> dict[str, Any]:
    """Return the row of what was `found` under a load, simulated from its own traces and from the first."""
    load = Load(found["clients"])
    made = simulated(machine, own, found, load)
    foreign = simulated(machine, first, found, load)
    return {
        "drafter": found["drafter"],
        "clients": load.clients,
        "requests": found["requests"],
        "ratio": made["tokens_per_second"] / found["tokens_per_second"],
        "ratio_from_lightest": foreign["tokens_per_second"] / found["tokens_per_second"],
        "measured": {field: found[field] for field in COMPARED},
        "simulated": {field: made[field] for field in COMPARED},
        "overhead_ms": found["overhead_ms"],
        "ask_ms": found["ask_ms"],
        "stretch": machine.stretch,
        "latency": asdict(machine.latency),
        "reading_latency": None if machine.reading is None else asdict(machine.reading),
    }


def simulated(machine: Machine, assumed: ByTraces, found: Mapping[str, Any], load: Load) -> dict[str, Any]:
    """Return the simulated row of what was found."""
    jobs = load.listed(assumed.jobs(load), found["requests"])
    rows = simulated_rows(machine, assumed, found["drafter"], {load: jobs})
    return next(row for row in rows if row["drafter"] == found["drafter"])


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows for people."""
    lines = ["clients drafter    measured simulated  ratio  lightest    τ meas.  sim.   ms/pass meas.  sim."]
    for row in rows:
        real, made = row["measured"], row["simulated"]
        lines.append(
            f"{row['clients']:7} {row['drafter']:10} {real['tokens_per_second']:8.1f} "
            f"{made['tokens_per_second']:9.1f} {row['ratio']:6.3f} {row['ratio_from_lightest']:9.3f} "
            f"{real['mean_accepted_length']:10.3f} {made['mean_accepted_length']:5.3f} "
            f"{real['pass_ms']:15.2f} {made['pass_ms']:5.2f}"
        )
    return "\n".join(lines)


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="demo")
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--suite", default="own")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--drafters", default="none,auto")
    parser.add_argument("--concurrency", default="1,2,4,8,16")
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--into", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def main() -> None:
    arguments = parsed()
    model = outrider.load(arguments.model, weights=arguments.weights, threads=arguments.threads).model
    rows = compare(model, arguments)
    print(table(rows))
    document = {
        "schema": {"name": "outrider.bench.simulated", "version": 1},
        "results": rows,
        "suite": arguments.suite,
        "max_tokens": arguments.max_tokens,
        "provenance": provenance(model, ("python", "benchmarks/simulated.py")),
    }
    if arguments.into is not None:
        write_document(document, arguments.into)
    if arguments.json:
        print(json.dumps(document))


if __name__ == "__main__":
    main()
