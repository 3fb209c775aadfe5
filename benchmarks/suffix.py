"""Time and memory of the suffix drafter: per token of text, and per step of decoding.

    python benchmarks/suffix.py [--json] [--repeats N]

Texts: `random` draws uniformly from 49152 tokens, `source` is Python's own standard library cut into words,
`periodic` repeats 7 tokens, `binary` draws from two tokens (the most states and transitions per token).
With --json the last line of the output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shlex
import sys
import sysconfig
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from outrider.loop.draft.automaton import SuffixAutomaton
from outrider.loop.draft.base import Ask
from outrider.loop.draft.suffix import SuffixDrafter

LENGTHS = (1024, 8192, 32768)
COMMITTED = 2
"""Tokens that a step commits."""
STEPS = 256
"""Steps timed at the end of each text."""
BUDGET = 15


def random_text(length: int, vocabulary: int) -> list[int]:
    draw = random.Random(0).randrange
    return [draw(vocabulary) for _ in range(length)]


def source_text(length: int) -> list[int]:
    ids: dict[str, int] = {}
    text: list[int] = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        words = re.findall(r"\w+|\s+|[^\w\s]", path.read_text(encoding="utf-8", errors="replace"))
        text += [ids.setdefault(word, len(ids)) for word in words]
        if len(text) >= length:
            return text[:length]
    raise SystemExit(f"the standard library here has fewer than {length} words of source")


TEXTS: dict[str, Callable[[int], list[int]]] = {
    "random": lambda length: random_text(length, 49152),
    "source": source_text,
    "periodic": lambda length: [position % 7 for position in range(length)],
    "binary": lambda length: random_text(length, 2),
}


def seconds_of_automaton(text: list[int]) -> float:
    """Time tokens that arrive `COMMITTED` at a time, with the match read after each arrival."""
    automaton = SuffixAutomaton()
    began = time.perf_counter()
    for start in range(0, len(text), COMMITTED):
        automaton.extend(text[start : start + COMMITTED])
        _ = automaton.match_length, automaton.match_end
    return time.perf_counter() - began


def bytes_of_automaton(text: list[int]) -> int:
    tracemalloc.start()
    automaton = SuffixAutomaton(text)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(automaton) == len(text)
    return held


def step_seconds(text: list[int], branch: bool) -> list[float]:
    """Time propose and extend together, for each of the last `STEPS` steps of a sequence."""
    drafter = SuffixDrafter()
    cut = len(text) - STEPS * COMMITTED
    state = drafter.open(text[:cut])
    ask = Ask(state, text, BUDGET, branch, params=cast(Any, None), draws=cast(Any, None))
    times: list[float] = []
    for start in range(cut, len(text), COMMITTED):
        began = time.perf_counter()
        drafter.propose([ask])
        drafter.extend(state, text[start : start + COMMITTED], 0)
        times.append(time.perf_counter() - began)
    return sorted(times)


def measure(name: str, length: int, repeats: int) -> dict[str, Any]:
    text = TEXTS[name](length)
    chain, tree = ([step_seconds(text, branch) for _ in range(repeats)] for branch in (False, True))
    return {
        "text": name,
        "tokens": length,
        "automaton_us_per_token": min(seconds_of_automaton(text) for _ in range(repeats)) / length * 1e6,
        "automaton_bytes_per_token": bytes_of_automaton(text) / length,
        "chain_step_us": min(sum(times) for times in chain) / STEPS * 1e6,
        "tree_step_us": min(sum(times) for times in tree) / STEPS * 1e6,
        "tree_step_us_p99": min(times[int(0.99 * STEPS)] for times in tree) * 1e6,
    }


def provenance(repeats: int) -> dict[str, Any]:
    try:
        outrider = version("outrider")
    except PackageNotFoundError:
        outrider = None
    processor = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = re.findall(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
        processor = names[0] if names else processor
    return {
        "command": shlex.join(["python", "benchmarks/suffix.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "outrider": outrider,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "processor": processor,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_at_start": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "repeats": repeats,
        "statistic": "fastest repeat; memory by tracemalloc",
        "tokens_per_step": COMMITTED,
        "budget": BUDGET,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of the suffix drafter.")
    parser.add_argument("--json", action="store_true", help="end with one JSON document")
    parser.add_argument("--repeats", type=int, default=3, help="repeats, of which the fastest counts")
    arguments = parser.parse_args()
    document: dict[str, Any] = {"provenance": provenance(arguments.repeats), "rows": []}
    columns = ("µs/token", "bytes/token", "µs/step chain", "µs/step tree", "p99")
    print(f"{'text':10}{'tokens':>8}" + "".join(f"{column:>15}" for column in columns))
    for name in TEXTS:
        for length in LENGTHS:
            row = measure(name, length, arguments.repeats)
            document["rows"].append(row)
            figures = list(row.values())[2:]
            print(f"{name:10}{length:>8}" + "".join(f"{figure:>15.2f}" for figure in figures), flush=True)
    if arguments.json:
        print(json.dumps(document))


if __name__ == "__main__":
    main()
