"""The simulation against the engine: tokens a second of the same requests, worked out and measured.

    python benchmarks/simulated.py [--model demo] [--weights auto] [--threads N] [--suite own] [--limit N]
                                   [--drafters none,auto] [--concurrency 1,2,4,8,16] [--requests 16]
                                   [--max-tokens 48] [--repeats 1] [--into FILE] [--json]

Each load is measured as by `outrider bench load`, then simulated from its own traces, over the latency curve
of this machine (with OUTRIDER_CACHE naming an empty folder it is measured now). `ratio` is the simulated
throughput over the measured one. `ratio_from_lightest` is the same with drafts, their times and overheads
taken from the lightest load alone. With --into rows are added to a file, so that loads may be measured in
several runs, each with a curve of its own; with --json the last line of the output is the document.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import outrider
from outrider.bench.assumed import ByTraces
from outrider.bench.contestants import BASELINE
from outrider.bench.curves import reading_latency
from outrider.bench.load import encoded, load_contestants, run_loads
from outrider.bench.load_result import load_document
from outrider.bench.load_told import LoadTold, load_told
from outrider.bench.provenance import provenance
from outrider.bench.result import read_json, write_document
from outrider.bench.simulate_result import Machine, simulated_rows
from outrider.bench.suites import open_suite
from outrider.bench.traffic import Load
from outrider.engine.scheduler import Limits
from outrider.llm import LLM, measured_latency
from outrider.sampling.params import SamplingParams

COMPARED = ("tokens_per_second", "mean_accepted_length", "nodes_per_step", "sequences_per_step", "pass_ms")


def compare(llm: LLM, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure and simulate every load; return a row for each load and drafter."""
    names = [BASELINE, *(name for name in arguments.drafters.split(",") if name != BASELINE)]
    loads = [Load(clients=int(count)) for count in arguments.concurrency.split(",")]
    suite = open_suite(arguments.suite).limited(arguments.limit)
    params = SamplingParams(max_tokens=arguments.max_tokens)
    limits = Limits(running=max(Limits().running, *(load.clients or 0 for load in loads)))
    latency = measured_latency(llm.model).get()
    machine = Machine(latency, limits, reading_latency(llm.model.target))
    measured = run_loads(
        load_contestants(llm, names),
        encoded(llm, suite),
        params,
        loads,
        repeats=arguments.repeats,
        count=arguments.requests,
        running=limits.running,
    )
    document = load_document(measured, suite, params, {}, running=limits.running)
    told = {name: load_told(document, "the measurement", name) for name in names}
    rows = []
    for found in document["results"]:
        load, name = Load(found["clients"]), found["drafter"]
        own = simulated(machine, ByTraces(told[name], told[BASELINE]), name, load)
        first = ByTraces(lightest(told[name]), lightest(told[BASELINE]))
        requests = told[name].near(load).requests
        foreign = simulated(machine, first, name, load, requests)
        rows.append(
            {
                "drafter": name,
                "clients": load.clients,
                "requests": found["requests"],
                "ratio": own["tokens_per_second"] / found["tokens_per_second"],
                "ratio_from_lightest": foreign["tokens_per_second"] / found["tokens_per_second"],
                "measured": {field: found[field] for field in COMPARED},
                "simulated": {field: own[field] for field in COMPARED},
                "overhead_ms": found["overhead_ms"],
                "ask_ms": found["ask_ms"],
                "latency": asdict(machine.latency),
                "reading_latency": None if machine.reading is None else asdict(machine.reading),
            }
        )
    return rows


def lightest(told: LoadTold) -> LoadTold:
    """Return what a result tells of the lightest load alone."""
    return LoadTold(told.rows[:1], told.max_tokens, told.running)


def simulated(
    machine: Machine, assumed: ByTraces, name: str, load: Load, requests: int | None = None
) -> dict[str, Any]:
    """Return the row of one drafter under one load."""
    jobs = assumed.jobs(load)
    rows = simulated_rows(machine, assumed, name, {load: load.listed(jobs, requests or len(jobs))})
    return next(row for row in rows if row["drafter"] == name)


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
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--into", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def main() -> None:
    arguments = parsed()
    llm = outrider.load(arguments.model, weights=arguments.weights, threads=arguments.threads)
    rows = compare(llm, arguments)
    print(table(rows))
    document = {
        "schema": {"name": "outrider.bench.simulated", "version": 1},
        "results": rows,
        "suite": arguments.suite,
        "max_tokens": arguments.max_tokens,
        "provenance": provenance(llm.model, ("python", "benchmarks/simulated.py")),
    }
    if arguments.into is not None:
        if arguments.into.exists():
            document["results"] = [*read_json(arguments.into)["results"], *rows]
        write_document(document, arguments.into)
    if arguments.json:
        print(json.dumps(document))


if __name__ == "__main__":
    main()
