"""What a rule costs: the time to decide one scored draft, beside the time of the pass that scored it.

    python benchmarks/rules.py [--model M] [--vocabulary V] [--nodes N] [--repeats R] [--step-ms MS] [--json]

Target and drafter are random logits that resemble each other; the tree has four children at its root and two
at every other node. A decision includes the laws that it asks for and runs on one thread, as in the loop; its
processor time is what is given, the median. `rows` is how many rows of logits were looked at, `laws` how many
of them were worked out whole, `kept` how many drafted tokens were kept, and `MB` the memory of all tensors
made meanwhile, one after another, all as means. The second table is the cost of one row: of a law under
several options, and of a draw from it. The time of a pass is that of model M (default: the demo model) over
N + 1 rows on top of 256 tokens, or --step-ms. With --json the last line of the output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from outrider.bench.provenance import provenance
from outrider.loop.accept.base import Rule
from outrider.models.base import LoadedModel
from outrider.models.load import load_model
from outrider.planner.probe import TargetProbe
from outrider.registry import LOSSY_RULES, RULES
from outrider.sampling import rows as row_work
from outrider.sampling.keyed import KeyedSource, race
from outrider.sampling.law import LogitLaws, law
from outrider.sampling.params import SamplingParams
from outrider.sampling.pick import pick
from outrider.sampling.threads import one_thread
from outrider.types import DraftTree, Law, Scored

SPREAD, NOISE = 2.5, 0.7
"""Standard deviations of the target's logits, and of the drafter's difference from them."""
CONTEXT = 256


class CountedLaws(LogitLaws):
    """Notes which rows were looked at, and which laws were worked out whole."""

    def __init__(self, logits: torch.Tensor, params: SamplingParams) -> None:
        super().__init__(logits, params)
        self.seen: set[int] = set()
        self.whole: set[int] = set()

    def __getitem__(self, row: int, /) -> torch.Tensor:
        self.seen.add(row)
        self.whole.add(row)
        return super().__getitem__(row)

    def probability(self, row: int, token: int) -> float:
        self.seen.add(row)
        return super().probability(row, token)

    def entropy(self, row: int) -> float:
        self.seen.add(row)
        return super().entropy(row)

    def mode(self, row: int) -> int:
        self.seen.add(row)
        return super().mode(row)


class Made(TorchDispatchMode):
    """Adds up the bytes of the tensors that operations return, but for views of what they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)}
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() not in given:
                self.bytes += tensor.nbytes
        return result


def parents_of(nodes: int, *, chain: bool) -> list[int]:
    return [node - 1 if chain else (node - 4) // 2 if node >= 4 else -1 for node in range(nodes)]


def drafted(rule: Rule, parents: list[int], q: list[torch.Tensor], seed: int) -> DraftTree:
    """Draw a tree under a rule: `q` holds the drafter's law after the committed text and after each node."""
    draws = KeyedSource(seed, 0).for_draft(rule, CONTEXT)
    tokens = [0] * len(parents)
    laws: list[Law | None] = [None] * len(parents)
    depths = [0] * (len(parents) + 1)
    for parent in range(-1, len(parents)):
        own, depth = q[parent + 1], depths[parent + 1]
        children = [child for child, above in enumerate(parents) if above == parent]
        for child, token in zip(children, draws.tokens(own, len(children), depth, parent), strict=True):
            tokens[child], depths[child + 1] = token, depth + 1
            laws[child] = own if rule.reads_laws else None
    return DraftTree(tuple(tokens), tuple(parents), tuple(laws))


def measure(rule: Rule, parents: list[int], vocabulary: int, repeats: int) -> dict[str, float]:
    """Decide `repeats` drafts; return the median processor time, and means of what happened."""
    params = SamplingParams(temperature=1.0 if rule.samples else 0.0)
    seen: dict[str, list[float]] = {key: [] for key in ("milliseconds", "rows", "laws", "kept", "megabytes")}
    generator = torch.Generator().manual_seed(1)
    logits = SPREAD * torch.randn(len(parents) + 1, vocabulary, generator=generator)
    blurred = logits + NOISE * torch.randn(logits.shape, generator=generator)
    q = list(law(blurred, SamplingParams(temperature=1.0)))
    for seed in range(repeats + 1):
        tree = drafted(rule, parents, q, seed)
        draws = KeyedSource(seed, 0).for_rule(rule, CONTEXT)
        laws = CountedLaws(logits, params)
        with one_thread():
            began = time.thread_time()
            verdict = rule.decide(Scored(tree, laws), draws)
            took = time.thread_time() - began
        with Made() as made:
            rule.decide(Scored(tree, LogitLaws(logits, params)), draws)
        if seed:  # the first warms up
            found = (1000 * took, len(laws.seen), len(laws.whole), len(verdict.path), made.bytes / 1e6)
            for key, value in zip(seen, found, strict=True):
                seen[key].append(value)
    return {
        key: (statistics.median if key == "milliseconds" else statistics.mean)(values)
        for key, values in seen.items()
    }


def row_costs(vocabulary: int, repeats: int) -> dict[str, float]:
    """Return the median processor time of one row's law and of a draw from it, in milliseconds."""
    row = SPREAD * torch.randn(vocabulary, generator=torch.Generator().manual_seed(2))
    p = law(row, SamplingParams(temperature=1.0))
    options: list[dict[str, Any]] = [{}, {"top_k": 50}, {"top_p": 0.9}, {"min_p": 0.05}, {"typical_p": 0.9}]
    work: dict[str, Callable[[], object]] = {}
    for extra in options:
        name = ", ".join(f"{key} {value}" for key, value in extra.items()) or "temperature alone"
        work[f"law, {name}"] = partial(law, row, SamplingParams(temperature=1.0, **extra))
    work["one probability"] = lambda: LogitLaws(row[None], SamplingParams(temperature=1.0)).probability(0, 1)
    work["token by shared noise"] = lambda: race(p, 1)
    work["token by one number"] = lambda: pick(p, 0.5)
    found: dict[str, float] = {}
    for name, act in work.items():
        times = []
        with one_thread():
            for _ in range(repeats + 1):
                began = time.thread_time()
                act()
                times.append(1000 * (time.thread_time() - began))
        found[name] = statistics.median(times[1:])
    return found


def pass_milliseconds(model: LoadedModel, rows: int, repeats: int) -> float:
    probe = TargetProbe(model.target)
    probe.fill(CONTEXT)
    probe.time(rows)
    return 1000 * statistics.median(probe.time(rows) for _ in range(repeats))


def main() -> None:
    parser = argparse.ArgumentParser(description="The time that each rule takes to decide.")
    parser.add_argument("--vocabulary", type=int, default=150_000)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--model", default="demo", help="whose pass the time is compared with")
    parser.add_argument("--step-ms", type=float, help="time of a pass (default: measured on the model)")
    parser.add_argument("--json", action="store_true", help="end with one JSON document")
    arguments = parser.parse_args()
    model = load_model(arguments.model)
    step = arguments.step_ms or pass_milliseconds(model, arguments.nodes + 1, arguments.repeats)
    print(f"a pass of {arguments.nodes + 1} rows, {model.name}: {step:.1f} ms")
    print(f"{'rule':12}{'shape':8}{'ms':>8}{'of a pass':>12}{'rows':>8}{'laws':>8}{'kept':>8}{'MB':>8}")
    results: list[dict[str, Any]] = []
    for name in [*RULES, *LOSSY_RULES]:
        rule: Rule = (RULES if name in RULES else LOSSY_RULES).load(name)()
        for shape in ("chain", "tree") if rule.serves_trees else ("chain",):
            parents = parents_of(arguments.nodes, chain=shape == "chain")
            found = measure(rule, parents, arguments.vocabulary, arguments.repeats)
            results.append({"rule": name, "shape": shape, **found, "of_a_pass": found["milliseconds"] / step})
            print(
                f"{name:12}{shape:8}{found['milliseconds']:8.2f}{results[-1]['of_a_pass']:12.1%}{found['rows']:8.1f}"
                f"{found['laws']:8.1f}{found['kept']:8.1f}{found['megabytes']:8.1f}",
                flush=True,
            )
    costs = row_costs(arguments.vocabulary, arguments.repeats)
    for name, took in costs.items():
        print(f"{name:32}{took:8.3f} ms")
    if arguments.json:
        settings = {key: getattr(arguments, key) for key in ("vocabulary", "nodes", "repeats")}
        where = provenance(model, ("python", "benchmarks/rules.py"))
        document = {"provenance": where, **settings, "context": CONTEXT, "pass_ms": step}
        rows = "C++" if row_work.core() is not None else "PyTorch"
        print(json.dumps({**document, "row_work": rows, "results": results, "row_ms": costs}))


if __name__ == "__main__":
    main()
