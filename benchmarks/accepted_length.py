"""Measure how much of the same drafts each rule keeps: mean accepted length with intervals, rule by rule.

A text of each prompt is sampled once at temperature 1. At places along it the drafter drafts a fixed shape,
the target scores it in one pass, and each rule decides the scored draft many times over: rules that have
their drafts drawn alike get the very same ones. No times are measured. With the draft model given (see
pruned_draft.py for one that needs no download):

    python benchmarks/accepted_length.py --draft out/draft26 --suite spec_bench_dev.jsonl --limit 5
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import outrider
from outrider.bench.provenance import provenance
from outrider.bench.result import write_document
from outrider.bench.suites import open_suite
from outrider.cli.documents import one_line
from outrider.drafters import build_drafter
from outrider.engine.result import Result
from outrider.loop.accept.base import Rule
from outrider.loop.draft.base import Ask
from outrider.loop.verify.pack import Part, pack
from outrider.loop.verify.score import path_to
from outrider.models.base import LoadedModel
from outrider.registry import RULES
from outrider.sampling.keyed import KeyedSource
from outrider.sampling.law import LogitLaws
from outrider.sampling.params import SamplingParams
from outrider.types import Scored

SHAPES = {"chain": "1,1,1,1", "tree": "3,2,1,1"}
RULES_OF = {"chain": ("rejection", "block", "coupled"), "tree": ("recursive", "traversal", "coupled")}
"""Rules for each shape; the others are compared with the first."""
PARAMS = SamplingParams(temperature=1.0)
RESAMPLES = 2000


class Counter:
    """Goes along texts and counts what each rule keeps of the drafts made there."""

    def __init__(self, model: LoadedModel, draft: Path, *, every: int, decisions: int) -> None:
        self._target, self._every, self._decisions = model.target, every, decisions
        self._drafters = {
            shape: build_drafter(f"lm:{draft}", model, options={"tree": tree})
            for shape, tree in SHAPES.items()
        }
        self._rules: dict[str, Rule] = {
            rule: RULES.load(rule)() for rules in RULES_OF.values() for rule in rules
        }

    def along(self, prompt: list[int], text: list[int]) -> dict[tuple[str, str], list[float]]:
        """Return the tokens per pass of each (shape, rule) at places along a text that follows a prompt."""
        cache = self._target.new_cache()
        states: dict[tuple[str, Any, bool], Any] = {}
        lengths: dict[tuple[str, str], list[float]] = {}
        for start in range(0, len(text), self._every):
            known = prompt + text[:start]
            scored: dict[tuple[str, Any, bool], Scored] = {}
            for shape, rules in RULES_OF.items():
                for name in rules:
                    rule = self._rules[name]
                    kind = (shape, rule.siblings, rule.shares_noise)
                    if kind not in states:
                        states[kind] = self._drafters[shape].open(known)
                    if kind not in scored:
                        scored[kind] = self._scored(shape, states[kind], known, rule, cache)
                    kept = self._kept(rule, scored[kind], len(known))
                    lengths.setdefault((shape, name), []).append(1 + kept)
            for kind, state in states.items():
                self._drafters[kind[0]].extend(state, text[start : start + self._every], 0)
        for kind, state in states.items():
            self._drafters[kind[0]].close(state)
        return lengths

    def _scored(self, shape: str, state: Any, known: list[int], rule: Rule, cache: Any) -> Scored:
        """Draft a tree after the known text and have the target score it."""
        ask = Ask(
            state=state,
            tokens=known,
            budget=nodes_of(SHAPES[shape]),
            branch=shape == "tree",
            params=PARAMS,
            draws=KeyedSource(0, 0).for_draft(rule, len(known)),
            siblings=rule.siblings,
        )
        [tree] = self._drafters[shape].propose([ask])
        pending = known[cache.length :]
        logits = self._target.forward(pack([Part(cache.length, pending, tree, True)]), [cache])
        cache.keep(range(len(pending) - 1))  # the last known token is run again, beside the next tree
        return Scored(tree, LogitLaws(logits, PARAMS, None, partial(path_to, tree)))

    def _kept(self, rule: Rule, scored: Scored, base: int) -> float:
        """Return how many drafted tokens a rule keeps, the mean over its own decisions."""
        # Where the noise is shared, the draft's seed has settled what is decided.
        seeds = range(1 if rule.shares_noise else self._decisions)
        sources = [KeyedSource(seed, 0).for_rule(rule, base) for seed in seeds]
        return float(np.mean([len(rule.decide(scored, source).path) for source in sources]))


def nodes_of(tree: str) -> int:
    """Return the nodes of a tree with so many children of each node, level by level."""
    nodes, level = 0, 1
    for children in map(int, tree.split(",")):
        level *= children
        nodes += level
    return nodes


def main() -> None:
    parser = argparse.ArgumentParser(description="Mean accepted length of each rule on the same drafts.")
    parser.add_argument("--model", default="demo")
    parser.add_argument("--draft", type=Path, required=True, help="a draft model of the same vocabulary")
    parser.add_argument("--suite", default="own")
    parser.add_argument("--limit", type=int, default=5, help="prompts of each task")
    parser.add_argument("--max-tokens", type=int, default=64, help="length of the texts")
    parser.add_argument("--every", type=int, default=4, help="tokens from one place to the next")
    parser.add_argument("--decisions", type=int, default=16, help="decisions of a rule on each draft")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    suite = open_suite(arguments.suite).limited(arguments.limit)
    llm = outrider.load(arguments.model, fill_budget=True, threads=arguments.threads)
    counter = Counter(llm.model, arguments.draft, every=arguments.every, decisions=arguments.decisions)
    found: list[dict[tuple[str, str], list[float]]] = []
    for index, prompt in enumerate(suite.prompts):
        ids = llm.encode(prompt.turns[0], chat=True)
        made = llm.generate(ids, PARAMS, seed=index, max_tokens=arguments.max_tokens, ignore_eos=True)
        assert isinstance(made, Result)
        found.append(counter.along(ids, list(made.token_ids)))
        print(f"{index + 1} of {len(suite.prompts)} prompts", file=sys.stderr, flush=True)
    rows = [row for shape in SHAPES for row in rows_of(shape, found)]
    settings = {name: getattr(arguments, name) for name in ("max_tokens", "every", "decisions")}
    document = {
        "schema": {"name": "outrider.accepted_length", "version": 2},
        "results": rows,
        "sampling": {"temperature": PARAMS.temperature, **settings},
        "suite": {"name": suite.name, "prompts": len(suite.prompts)},
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
            f"{ratio['ratio']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f}) of {RULES_OF[row['shape']][0]}"
        )


def rows_of(shape: str, found: list[dict[tuple[str, str], list[float]]]) -> list[dict[str, Any]]:
    """Return a row for each rule of a shape: its mean length, and the ratio to the first rule's.

    Intervals are 95 % of what prompts drawn anew would give (bootstrap over prompts).
    """
    picks = np.random.default_rng(0).integers(0, len(found), size=(RESAMPLES, len(found)))
    rules = RULES_OF[shape]
    # each rule's mean of every prompt, and of every draw of prompts
    means = {rule: np.asarray([np.mean(lengths[shape, rule]) for lengths in found]) for rule in rules}
    again = {rule: means[rule][picks].mean(axis=1) for rule in rules}
    rows = []
    for rule in rules:
        low, high = np.percentile(again[rule], [2.5, 97.5])
        under, over = np.percentile(again[rule] / again[rules[0]], [2.5, 97.5])
        ratio = float(means[rule].mean() / means[rules[0]].mean())
        rows.append(
            {
                "shape": shape,
                "tree": SHAPES[shape],
                "rule": rule,
                "mean_accepted_length": float(means[rule].mean()),
                "low": float(low),
                "high": float(high),
                "over_first": {"ratio": ratio, "low": float(under), "high": float(over)},
            }
        )
    return rows


if __name__ == "__main__":
    main()
