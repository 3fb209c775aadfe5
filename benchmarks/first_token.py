"""Time to the first token: beside a long prompt that is being read, and of a text that was read before.

    python benchmarks/first_token.py [--model demo] [--weights auto] [--threads N] [--repeats 9]
                                     [--long 4096] [--short 32] [--prefix 1024] [--seed 0] [--json]

`idle`: a short request to a service that does nothing else. `beside`: the same while a long prompt is being
read, sent at a random moment of it, so that it also waits for the pass that runs. `pass`: what one pass over
a piece of the long prompt takes until then. `first` and `second`: one request twice, with a store of
prefixes; `like it`: another one whose prompt begins with the same tokens. Prompts are random tokens, others
in each repeat, and one token is asked for. Everything is measured in turn, and medians are told. With --json
the last line of the output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from statistics import quantiles
from typing import Any

import outrider
from outrider.bench.provenance import provenance
from outrider.engine.engine import Event
from outrider.engine.scheduler import Limits
from outrider.engine.service import Service
from outrider.llm import LLM
from outrider.sampling.params import SamplingParams

ONE = SamplingParams(max_tokens=1, ignore_eos=True)


class Timed:
    """An engine that notes the seconds of its steps."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.steps: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def step(self) -> list[Event]:
        started = time.perf_counter()
        events: list[Event] = self._engine.step()
        self.steps.append(time.perf_counter() - started)
        return events


def first_token(service: Service, prompt: Sequence[int]) -> float:
    """Return the seconds from sending a request to its first token."""
    started = time.perf_counter()
    service.submit(prompt, ONE).result()
    return time.perf_counter() - started


def beside(
    llm: LLM, limits: Limits, long: Sequence[int], short: Sequence[int], draw: random.Random
) -> tuple[float, list[float]] | None:
    """Return the time to the first token of `short` while `long` is read, and the times of its passes before.

    None where the long prompt was read before the short one was answered.
    """
    engine = Timed(llm.engine(limits))
    with Service(engine) as service:
        reading = service.submit(long, ONE)
        while not engine.steps:
            time.sleep(0.001)
        time.sleep(draw.uniform(0.0, 2 * engine.steps[0]))
        alone = list(engine.steps)
        seconds = first_token(service, short)
        still = reading.request.result is None  # it asks for one token: it is being read
        reading.cancel()
    return (seconds, alone) if still else None


def figures(values: Sequence[float]) -> dict[str, Any]:
    """Return median, quartiles and all values, in milliseconds."""
    found = [1000 * value for value in values]
    low, middle, high = quantiles(found, n=4) if len(found) > 1 else found * 3
    return {"median_ms": middle, "low_ms": low, "high_ms": high, "ms": found}


def measure(llm: LLM, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of all ways by name, in milliseconds; `llm` has a store of prefixes."""
    draw = random.Random(arguments.seed)
    limits = Limits()
    found: dict[str, list[float]] = {}
    missed = 0

    def tokens(count: int) -> list[int]:
        return [draw.randrange(llm.model.target.vocab_size) for _ in range(count)]

    for turn in range(arguments.repeats + 1):
        times: dict[str, list[float]] = {}
        with Service(llm.engine(limits)) as service:
            times["idle"] = [first_token(service, tokens(arguments.short))]
        measured = beside(llm, limits, tokens(arguments.long), tokens(arguments.short), draw)
        if measured is not None:
            times["beside"], times["pass"] = [measured[0]], measured[1]
        elif turn:
            missed += 1
        prefix = tokens(arguments.prefix)
        asked, other = ([*prefix, *tokens(arguments.short)] for _ in range(2))
        with Service(llm.engine(limits)) as service:
            times["first"] = [first_token(service, asked)]
            times["second"] = [first_token(service, asked)]
            times["like it"] = [first_token(service, other)]
        if turn:  # the first turn warms up
            for name, seconds in times.items():
                found.setdefault(name, []).extend(seconds)
    return {**{name: figures(values) for name, values in found.items()}, "missed": missed}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="demo")
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--long", type=int, default=4096, help="tokens of the long prompt")
    parser.add_argument("--short", type=int, default=32, help="tokens of the short ones")
    parser.add_argument("--prefix", type=int, default=1024, help="tokens that requests begin with alike")
    parser.add_argument("--prefix-bytes", type=int, default=2**30, help="what stored prefixes may take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    llm = outrider.load(
        arguments.model,
        weights=arguments.weights,
        threads=arguments.threads,
        prefix_bytes=arguments.prefix_bytes,
    )
    longest = max(arguments.long, arguments.short, arguments.prefix + arguments.short) + ONE.max_tokens
    if longest > llm.model.target.context_limit:
        sys.exit(
            f"the longest request takes {longest} tokens, the context holds {llm.model.target.context_limit}"
        )
    found = measure(llm, arguments)
    document = {
        "schema": {"name": "outrider.bench.first_token", "version": 1},
        "tokens": {name: getattr(arguments, name) for name in ("long", "short", "prefix")},
        "repeats": arguments.repeats,
        "limits": asdict(Limits()),
        "results": found,
        "provenance": provenance(llm.model, ("python", "benchmarks/first_token.py")),
    }
    for name in ("idle", "beside", "pass", "first", "second", "like it"):
        if name in found:
            row = found[name]
            print(f"{name:8} {row['median_ms']:8.1f} ms   ({row['low_ms']:.1f} to {row['high_ms']:.1f})")
    if found["missed"]:
        print(f"{found['missed']} times the long prompt was read before the short one was answered: left out")
    if arguments.json:
        print(json.dumps(document))


if __name__ == "__main__":
    main()
