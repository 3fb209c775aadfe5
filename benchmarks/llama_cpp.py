"""Time of single passes over 1 … 16 rows in llama.cpp, beside this package's own.

    python benchmarks/llama_cpp.py MODEL [--engines llama.cpp:f16,native:fp16] [--context N] [--out FILE]

MODEL is a GGUF file or 'demo'. An engine is llama.cpp or llama.cpp:WEIGHTS as for `outrider bench --peer`, or
IMPLEMENTATION:WEIGHTS, a pass of this package's own. Needs `pip install cyllama`.

Every pass reads random tokens on top of a filled cache, gives logits for all its rows, and is undone. Engines
take turns, each with one pass that does not count (what the last engine left in the processor's caches has to
go) and then every count of rows, in an order that turns by one each time. Medians count.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from outrider.bench.peers.llama_cpp import open_session
from outrider.bench.peers.llama_session import LlamaSession
from outrider.bench.provenance import provenance
from outrider.bench.result import write_document
from outrider.models.base import LoadedModel
from outrider.models.load import load_model
from outrider.models.locate import locate
from outrider.planner.cost import Probe
from outrider.planner.probe import TargetProbe

ROWS = (1, 2, 4, 8, 16)
PEER = "llama.cpp"


class LlamaProbe:
    """Passes of random tokens through llama.cpp."""

    def __init__(self, session: LlamaSession, vocab_size: int, context_limit: int) -> None:
        self.context_limit = context_limit
        self._session, self._vocab_size = session, vocab_size
        self._random = random.Random(0)

    def fill(self, context: int) -> None:
        self._session.start(context + max(ROWS))
        self._session.read(self._tokens(context))

    def time(self, rows: int) -> float:
        tokens, before = self._tokens(rows), self._session.length
        started = time.perf_counter()
        self._session.read(tokens, all_logits=True)
        seconds = time.perf_counter() - started
        self._session.cut(before)
        return seconds

    def _tokens(self, count: int) -> list[int]:
        return [self._random.randrange(self._vocab_size) for _ in range(count)]


def open_probe(engine: str, model: str, loaded: LoadedModel) -> Probe:
    name, _, weights = engine.partition(":")
    if name != PEER:
        return TargetProbe(load_model(model, implementation=name, weights=weights or "auto").target)
    session = open_session(locate(model), weights or None, threads=torch.get_num_threads())
    return LlamaProbe(session, loaded.target.vocab_size, loaded.target.context_limit)


def measure(probes: dict[str, Probe], context: int, repeats: int) -> list[dict[str, Any]]:
    times: dict[tuple[str, int], list[float]] = {(name, n): [] for name in probes for n in ROWS}
    for probe in probes.values():
        probe.fill(context)
    for turn in range(repeats):
        for name, probe in probes.items():
            probe.time(max(ROWS))
            shift = turn % len(ROWS)
            for rows in (*ROWS[shift:], *ROWS[:shift]):
                times[name, rows].append(probe.time(rows))
    medians = {key: statistics.median(values) for key, values in times.items()}
    return [
        {
            "engine": name,
            "context": context,
            "rows": rows,
            "milliseconds": 1000 * seconds,
            "ratio": seconds / medians[name, 1],
        }
        for (name, rows), seconds in medians.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of single passes in llama.cpp and here.")
    parser.add_argument("model", help="a GGUF file, or 'demo'")
    parser.add_argument("--engines", default="llama.cpp:f16,llama.cpp:q8_0,llama.cpp,auto:fp16,auto:int8")
    parser.add_argument("--context", type=int, default=256, help="cached tokens")
    parser.add_argument("--repeats", type=int, default=15, help="passes per count of rows")
    parser.add_argument("--threads", type=int, help="default: what torch takes")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    loaded = load_model(arguments.model)
    probes = {name: open_probe(name, arguments.model, loaded) for name in arguments.engines.split(",")}
    rows = measure(probes, arguments.context, arguments.repeats)
    for name in probes:
        own = [row for row in rows if row["engine"] == name]
        cells = "".join(f"{row['rows']:>5} {row['milliseconds']:7.1f} ms {row['ratio']:5.2f}×" for row in own)
        print(f"{name:16}{cells}")
    if arguments.out:
        schema = {"name": "outrider.benchmarks.llama_cpp", "version": 1}
        where = provenance(loaded, program=("python", "benchmarks/llama_cpp.py"))
        write_document({"schema": schema, "curves": rows, "provenance": where}, arguments.out)


if __name__ == "__main__":
    main()
