"""Measure how often a draft model's first, second, … choice is right, and print the best shape of a tree.

    python benchmarks/best_tree.py demo out/draft --suite prompts.jsonl --limit 3 --budget 15

The last line is what `--drafter lm:DRAFT --drafter-option tree=…` takes.
"""

from __future__ import annotations

import argparse

import outrider
from outrider.bench.ranks import rank_counts
from outrider.bench.suites import open_suite
from outrider.loop.draft.lm import relative_cost
from outrider.planner.measured import measure_latency
from outrider.planner.sequoia import best_tree, rank_acceptance
from outrider.sampling.params import SamplingParams


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("draft")
    parser.add_argument("--suite", default="own")
    parser.add_argument("--limit", type=int, default=None, help="only the first prompts of each task")
    parser.add_argument("--width", type=int, default=6)
    parser.add_argument("--budget", type=int, default=15)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=None)
    given = parser.parse_args()
    llm = outrider.load(given.model, threads=given.threads)
    draft = outrider.load(given.draft).model.target
    params = SamplingParams(temperature=given.temperature, seed=0, max_tokens=given.max_tokens)
    tried, right = [0] * given.width, [0] * given.width
    for prompt in open_suite(given.suite).limited(given.limit).prompts:
        ids = llm.encode(prompt.turns[0], chat=llm.model.tokenizer.has_chat_template)
        answer = llm.generate(ids, params).token_ids
        counts = rank_counts(draft, llm.model.target.vocab_size, ids, answer, params, given.width)
        tried = [a + b for a, b in zip(tried, counts[0], strict=True)]
        right = [a + b for a, b in zip(right, counts[1], strict=True)]
    acceptance = rank_acceptance([tried], [right])
    costs = measure_latency(llm.model.target).costs(given.budget)
    cost = relative_cost(draft, llm.model.target)
    best = best_tree(acceptance, costs, draft_cost=cost)
    print(
        "acceptance by rank:", " ".join(f"{share:.3f}" for share in acceptance[0]), f"({tried[0]} positions)"
    )
    print(f"a draft pass: {cost:.2f} of a target pass")
    print(f"expected: {best.tokens:.2f} tokens in the time of {best.time:.2f} plain passes")
    print("tree=" + ",".join(map(str, best.parents)) if best.parents else "drafting does not pay")


if __name__ == "__main__":
    main()
