"""Write the README's figures from the result files, between its markers: `python benchmarks/figures.py`.

A test fails where the README says something else than the files.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- figures: made by benchmarks/figures.py -->\n", "<!-- end of figures -->"
TASKS = ("mt", "translation", "summarization", "qa", "math_reasoning", "rag", "overall")


def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
    return document


def figures() -> str:
    bench, curve = read("spec-bench-greedy"), read("curve-fp16")
    rows = {(row["category"], row["drafter"]): row for row in bench["results"]}
    overall = {name: rows["overall", name] for name in ("none", "suffix", "transformers")}
    speed = {name: row["decode_tokens_per_second"] for name, row in overall.items()}
    where = bench["provenance"]
    machine, same = where["machine"], overall["suffix"]["identical_to_plain"]
    lines = [
        f"On {machine['cores']} cores of an {machine['processor']} the embedded 135M model writes "
        f"**{speed['suffix']:.0f} tokens/s**",
        f"where transformers writes {speed['transformers']:.0f}: "
        f"{speed['none'] / speed['transformers']:.1f}× from the lean decoder "
        f"({where['model']['weights']} weights), {speed['suffix'] / speed['none']:.2f}× more",
        f"from the `suffix` drafter, which changed no token: {same:.0%} of {overall['suffix']['prompts']} "
        "Spec-Bench prompts are identical",
        "to plain decoding.",
        "",
        "| decode tokens/s | " + " | ".join(task.replace("_reasoning", "") for task in TASKS) + " |",
        "|---" * (len(TASKS) + 1) + "|",
    ]
    labels = {"transformers": "transformers, fp32", "none": "outrider, plain", "suffix": "outrider, `suffix`"}
    for name, label in labels.items():
        cells = [f"{rows[task, name]['decode_tokens_per_second']:.1f}" for task in TASKS]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lengths = [f"{rows[task, 'suffix']['mean_accepted_length']:.2f}" for task in TASKS]
    lines.append("| tokens per pass (τ) | " + " | ".join(lengths) + " |")
    first = curve["curves"][0].get("kernel")
    points = [point for point in curve["curves"] if point.get("kernel") == first and point["context"] == 256]
    ratios = {point["rows"]: point["ratio"] for point in points}
    lines += [
        "",
        f"Checking guesses is cheap: a pass over 4 positions costs {ratios[4]:.2f}× a pass over one, "
        f"over 8 positions {ratios[8]:.2f}×.",
        f"(greedy, 128 tokens, batch 1, interleaved; torch {where['versions']['torch']}, transformers "
        f"{where['versions']['transformers']}; [result files](benchmarks/results))",
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def rewritten(readme: str) -> str:
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    assert pattern.search(readme), "the README has lost its markers"
    return pattern.sub(lambda _: BEGIN + figures() + END, readme)


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")
