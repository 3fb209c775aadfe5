"""Measure how much of the same drafts each rule keeps: mean accepted length with intervals, rule by rule.

Drafts have a fixed shape, so that all rules see drafts of the same size; no times are measured. At
temperature 1, with the draft model given (see pruned_draft.py for one that needs no download):

    python benchmarks/accepted_length.py --draft out/draft26 --suite spec_bench_dev.jsonl --limit 5
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import outrider
from outrider.bench.provenance import provenance
from outrider.bench.result import write_document
from outrider.bench.suites import open_suite
from outrider.cli.documents import one_line
from outrider.engine.result import Result
from outrider.llm import LLM

SHAPES = {"chain": "1,1,1,1", "tree": "3,2,1,1"}
RULES = {"chain": ("rejection", "block", "coupled"), "tree": ("recursive", "traversal", "coupled")}
"""Rules for each shape; the others are compared with the first."""
RESAMPLES = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--draft", type=Path, required=True, help="a draft model of the same vocabulary")
    parser.add_argument("--suite", default="own")
    parser.add_argument("--limit", type=int, default=5, help="prompts of each task")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=1, help="texts of each prompt")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    suite = open_suite(arguments.suite).limited(arguments.limit)
    llm = outrider.load(arguments.model, fill_budget=True, threads=arguments.threads)
    prompts = [llm.encode(prompt.turns[0], chat=True) for prompt in suite.prompts]
    measured = {}
    for shape, tree in SHAPES.items():
        drafting = llm.using(
            drafter=f"lm:{arguments.draft}", drafter_options={"tree": tree}, budget=nodes_of(tree)
        )
        for rule in RULES[shape]:
            counts = count(drafting.using(rule=rule), prompts, arguments.max_tokens, arguments.seeds)
            measured[shape, rule] = counts
    rows = [row for shape in SHAPES for row in rows_of(shape, measured)]
    document = {
        "schema": {"name": "outrider.accepted_length", "version": 1},
        "results": rows,
        "sampling": {"temperature": 1.0, "max_tokens": arguments.max_tokens, "seeds": arguments.seeds},
        "suite": {"name": suite.name, "prompts": len(prompts)},
        "draft": arguments.draft.name,
        "provenance": provenance(llm.model, ("python", "benchmarks/accepted_length.py")),
    }
    if arguments.out is not None:
        write_document(document, arguments.out)
    if arguments.json:
        print(one_line(document))
        return
    for row in rows:
        ratio = row["over_first"]
        print(
            f"{row['shape']:6} {row['rule']:10} {row['mean_accepted_length']:.3f} "
            f"({row['low']:.3f} to {row['high']:.3f})  "
            f"{ratio['ratio']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f}) of {RULES[row['shape']][0]}"
        )


def nodes_of(tree: str) -> int:
    """Return the nodes of a tree with so many children of each node, level by level."""
    nodes, level = 0, 1
    for children in map(int, tree.split(",")):
        level *= children
        nodes += level
    return nodes


def count(llm: LLM, prompts: Sequence[list[int]], most: int, seeds: int) -> np.ndarray:
    """Return tokens and passes of each prompt, [prompts, 2], without the pass that reads the prompt."""
    rows = []
    for prompt in prompts:
        tokens = passes = 0
        for seed in range(seeds):
            result = llm.generate(prompt, temperature=1.0, seed=seed, max_tokens=most, ignore_eos=True)
            assert isinstance(result, Result)
            tokens += result.speculation.tokens
            passes += result.speculation.passes
        rows.append((tokens, passes))
    return np.asarray(rows, dtype=np.float64)


def rows_of(shape: str, measured: dict[tuple[str, str], np.ndarray]) -> list[dict[str, Any]]:
    """Return a row for each rule of a shape: its pooled length, and its ratio to the first rule's."""
    first = measured[shape, RULES[shape][0]]
    picks = np.random.default_rng(0).integers(0, len(first), size=(RESAMPLES, len(first)))
    base = pooled(first, picks)
    rows = []
    for rule in RULES[shape]:
        counts = measured[shape, rule]
        lengths = pooled(counts, picks)
        ratios = lengths / base
        length, ratio = tau(counts), tau(counts) / tau(first)
        low, high = np.percentile(lengths, [2.5, 97.5])
        under, over = np.percentile(ratios, [2.5, 97.5])
        rows.append(
            {
                "shape": shape,
                "tree": SHAPES[shape],
                "rule": rule,
                "mean_accepted_length": length,
                "low": float(low),
                "high": float(high),
                "over_first": {"ratio": ratio, "low": float(under), "high": float(over)},
            }
        )
    return rows


def tau(counts: np.ndarray) -> float:
    """Return tokens per pass over all prompts."""
    tokens, passes = counts.sum(axis=0)
    return float(tokens / passes)


def pooled(counts: np.ndarray, picks: np.ndarray) -> np.ndarray:
    """Return tokens per pass of each resampled set of prompts."""
    totals = counts[picks].sum(axis=1)
    return np.asarray(totals[:, 0] / totals[:, 1])


if __name__ == "__main__":
    main()
