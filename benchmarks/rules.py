"""What a rule costs: the time to decide one scored draft, beside the time of the pass that scored it.

    python benchmarks/rules.py [--vocabulary V] [--nodes N] [--repeats R] [--step-ms MS] [--json]

Target and drafter are random logits that resemble each other; the tree has four children at its root and two
at every other node. A decision includes the laws that it asks for and runs on one thread, as in the loop; its
processor time is what is given. `rows` is how many laws were worked out, `kept` how many drafted tokens were
kept, both as means. The time of a pass is that of the demo model over N + 1 rows, or --step-ms.
With --json the last line of the output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import torch

from outrider.bench.provenance import provenance
from outrider.loop.accept.base import Rule
from outrider.models.base import LoadedModel
from outrider.models.load import load_model
from outrider.planner.probe import TargetProbe
from outrider.registry import LOSSY_RULES, RULES
from outrider.sampling.keyed import KeyedSource
from outrider.sampling.law import LogitLaws, law
from outrider.sampling.params import SamplingParams
from outrider.sampling.threads import one_thread
from outrider.types import DraftTree, Law, Scored

SPREAD, NOISE = 2.5, 0.7
"""Standard deviations of the target's logits, and of the drafter's difference from them."""
CONTEXT = 256


class CountedLaws(LogitLaws):
    """Notes which rows were asked for."""

    def __init__(self, logits: torch.Tensor, params: SamplingParams) -> None:
        super().__init__(logits, params)
        self.asked: set[int] = set()

    def __getitem__(self, row: int, /) -> torch.Tensor:
        self.asked.add(row)
        return super().__getitem__(row)


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
    times, rows, kept = [], [], []
    generator = torch.Generator().manual_seed(1)
    logits = SPREAD * torch.randn(len(parents) + 1, vocabulary, generator=generator)
    blurred = logits + NOISE * torch.randn(logits.shape, generator=generator)
    q = list(law(blurred, SamplingParams(temperature=1.0)))
    for seed in range(repeats + 1):
        tree = drafted(rule, parents, q, seed)
        laws = CountedLaws(logits, params)
        with one_thread():
            began = time.thread_time()
            verdict = rule.decide(Scored(tree, laws), KeyedSource(seed, 0).for_rule(rule, CONTEXT))
            took = time.thread_time() - began
        if seed:  # the first warms up
            times.append(took)
            rows.append(len(laws.asked))
            kept.append(len(verdict.path))
    return {
        "milliseconds": 1000 * statistics.median(times),
        "rows": statistics.mean(rows),
        "kept": statistics.mean(kept),
    }


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
    parser.add_argument("--step-ms", type=float, help="time of a pass (default: measured on the demo model)")
    parser.add_argument("--json", action="store_true", help="end with one JSON document")
    arguments = parser.parse_args()
    model = load_model("demo")
    step = arguments.step_ms or pass_milliseconds(model, arguments.nodes + 1, arguments.repeats)
    print(f"a pass of {arguments.nodes + 1} rows: {step:.1f} ms")
    print(f"{'rule':12}{'shape':8}{'ms':>8}{'of a pass':>12}{'rows':>8}{'kept':>8}")
    results: list[dict[str, Any]] = []
    for name in [*RULES, *LOSSY_RULES]:
        rule: Rule = (RULES if name in RULES else LOSSY_RULES).load(name)()
        for shape in ("chain", "tree") if rule.serves_trees else ("chain",):
            parents = parents_of(arguments.nodes, chain=shape == "chain")
            found = measure(rule, parents, arguments.vocabulary, arguments.repeats)
            results.append({"rule": name, "shape": shape, **found, "of_a_pass": found["milliseconds"] / step})
            print(
                f"{name:12}{shape:8}{found['milliseconds']:8.2f}{results[-1]['of_a_pass']:12.1%}"
                f"{found['rows']:8.1f}{found['kept']:8.1f}",
                flush=True,
            )
    if arguments.json:
        settings = {key: getattr(arguments, key) for key in ("vocabulary", "nodes", "repeats")}
        where = provenance(model, ("python", "benchmarks/rules.py"))
        print(json.dumps({"provenance": where, **settings, "pass_ms": step, "results": results}))


if __name__ == "__main__":
    main()
