"""Write the figures of README and docs/benchmarks.md from the result files, between their markers.

    python benchmarks/figures.py

A test fails where a page says something else than the files.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- figures: made by benchmarks/figures.py -->\n", "<!-- end of figures -->"
TASKS = ("mt", "translation", "summarization", "qa", "math_reasoning", "rag", "overall")
PEERS = {"fp16": "llama.cpp:f16", "int8": "llama.cpp:q8_0", "file": "llama.cpp"}
"""The peer of each run, by the format of our own weights."""
FORMATS = {"fp16": "fp16, F16", "int8": "int8, Q8_0", "file": "the file's own Q4_1"}


def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
    return document


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False)


def rates(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["category"], row["drafter"]): row for row in document["results"]}


def headline() -> list[str]:
    document = read("spec-bench-file")
    rows, where, theirs = rates(document), document["provenance"], PEERS["file"]
    overall = {name: rows["overall", name] for name in ("none", "suffix", "transformers", theirs)}
    speed = {name: row["decode_tokens_per_second"] for name, row in overall.items()}
    plain, same = speed["none"], overall["suffix"]["identical_to_plain"]
    labels = {
        "transformers": "transformers, fp32",
        theirs: "llama.cpp, the same Q4_1 file",
        "none": "outrider, plain",
        "suffix": "outrider, `suffix`",
    }
    cells: list[list[str]] = [
        [label, *(f"{rows[task, name]['decode_tokens_per_second']:.0f}" for task in TASKS)]
        for name, label in labels.items()
    ]
    cells.append(
        ["tokens per pass (τ)", *(f"{rows[task, 'suffix']['mean_accepted_length']:.2f}" for task in TASKS)]
    )
    text = (
        f"On {where['machine']['cores']} cores of an {where['machine']['processor']} the embedded 135M model "
        f"writes **{speed['suffix']:.0f} tokens/s** where llama.cpp, on the same file, writes "
        f"{speed[theirs]:.0f} and transformers (fp32) {speed['transformers']:.0f}: "
        f"{plain / speed[theirs]:.1f}× llama.cpp from the native pass, {speed['suffix'] / plain:.2f}× more "
        f"from the `suffix` drafter, which changed no token: {same:.0%} of {overall['suffix']['prompts']} "
        "Spec-Bench prompts are identical to plain decoding."
    )
    return [
        *wrapped(text),
        "",
        *table(["decode tokens/s", *(task.replace("_reasoning", "") for task in TASKS)], cells),
    ]


def by_format() -> list[str]:
    def row(weights: str) -> list[str]:
        runs, line = rates(read(f"spec-bench-{weights}")), read(f"roofline-{weights}")
        passes = {entry["rows"]: entry for entry in line["passes"]}
        ours, drafted, theirs = (
            runs["overall", name]["decode_tokens_per_second"] for name in ("none", "suffix", PEERS[weights])
        )
        return [
            FORMATS[weights],
            f"{passes[1]['over_read']:.2f}×",
            *(f"{passes[rows]['ratio']:.2f}" for rows in (4, 8, 16)),
            f"{ours:.0f}",
            f"{drafted:.0f}",
            f"{theirs:.0f}",
            f"{runs['overall', 'suffix']['identical_to_plain']:.0%}",
        ]

    header = ["weights", "T(1) / read", "T(4) / T(1)", "T(8) / T(1)", "T(16) / T(1)"]
    header += ["plain tokens/s", "`suffix`", "llama.cpp", "identical"]
    return table(header, [row(weights) for weights in FORMATS])


def pair() -> list[str]:
    def gain(weights: str) -> str:
        runs = rates(read(f"pair-{weights}"))
        names = [name for task, name in runs if task == "overall"]
        draft = next(name for name in names if name.startswith("lm:"))
        speeds = [runs["overall", name]["decode_tokens_per_second"] for name in ("none", draft)]
        return f"{speeds[0]:.1f} → {speeds[1]:.1f} tokens/s ({speeds[1] / speeds[0]:.2f}×)"

    return wrapped(
        "A 1.5B model (Qwen2.5-Coder) with its 0.5B sister as the draft, greedy, the very same text: "
        f"Q4_K_M {gain('file')}, int8 {gain('int8')}."
    )


def figures() -> str:
    versions = read("spec-bench-file")["provenance"]["versions"]
    parts: list[Callable[[], list[str]]] = [headline, by_format, pair]
    lines = [line for part in parts for line in [*part(), ""]]
    lines += wrapped(
        "T(n): the time of a pass over n positions, context 256; read: the time to read the same bytes of "
        f"weights, keys and values. (greedy, 128 tokens, batch 1, interleaved; torch {versions['torch']}, "
        f"transformers {versions['transformers']}, cyllama {versions['cyllama']}, whose wheel holds no "
        "AVX-512 code; [result files](benchmarks/results), each of its own commit and hour: compare within "
        "one)"
    )
    return "\n".join(line.rstrip() for line in lines) + "\n"


def rule_costs() -> str:
    document = read("rules")
    where = document["provenance"]
    cells = [
        [
            f"`{row['rule']}`",
            row["shape"],
            f"{row['milliseconds']:.1f}",
            f"{row['of_a_pass']:.1%}",
            f"{row['rows']:.0f}",
            f"{row['laws']:.0f}",
            f"{row['megabytes']:.1f}",
        ]
        for row in document["results"]
    ]
    text = (
        f"{document['nodes']} nodes, {document['vocabulary']} tokens, {where['machine']['processor']}, rows "
        f"in {document['row_work']}; the pass is that of {where['model']['name']} over "
        f"{document['nodes'] + 1} rows, {document['pass_ms']:.0f} ms "
        f"on {where['machine']['threads']} threads. One row: "
        + ", ".join(f"{name} {took:.2f} ms" for name, took in document["row_ms"].items())
        + "."
    )
    header = ["rule", "draft", "ms", "of a pass", "rows", "laws", "MB made"]
    return "\n".join([*table(header, cells), "", *wrapped(text)]) + "\n"


def accepted_lengths() -> str:
    def interval(row: dict[str, Any], value: str) -> str:
        return f"{row[value]:.3f} ({row['low']:.3f} to {row['high']:.3f})"

    document = read("accepted-length")
    cells = [
        [
            row["shape"],
            f"`{row['rule']}`",
            interval(row, "mean_accepted_length"),
            interval(row["over_first"], "ratio"),
        ]
        for row in document["results"]
    ]
    sampling, where = document["sampling"], document["provenance"]
    shapes = ", ".join(dict.fromkeys(f"{row['shape']} {row['tree']}" for row in document["results"]))
    suite = document["suite"]
    text = (
        f"Children at each level: {shapes}. {suite['prompts']} prompts of {suite['name']}, temperature "
        f"{sampling['temperature']:g}, a draft every {sampling['every']} of {sampling['max_tokens']} tokens; "
        f"target {where['model']['name']}, draft model {document['draft']}. Intervals: 95 % over prompts "
        "drawn anew."
    )
    header = ["draft", "rule", "tokens per pass", "over the first rule of the draft"]
    return "\n".join([*table(header, cells), "", *wrapped(text)]) + "\n"


def under_load() -> str:
    def ratio(row: dict[str, Any]) -> str:
        found = row["throughput_over_plain"]
        return f"{found['median']:.2f} ({found['low']:.2f} to {found['high']:.2f})"

    document = read("load-own")
    rows = {(row["clients"], row["drafter"]): row for row in document["results"]}
    drafters = [name for name in dict.fromkeys(name for _, name in rows) if name != "none"]
    cells = [
        [
            str(clients),
            f"{rows[clients, 'none']['tokens_per_second']:.0f}",
            *(ratio(rows[clients, name]) for name in drafters),
            *(f"{rows[clients, name]['undrafted_steps']:.0%}" for name in drafters),
            ", ".join(f"{rows[clients, name]['outside_passes']:.1%}" for name in ("none", drafters[0])),
        ]
        for clients in dict.fromkeys(clients for clients, _ in rows)
    ]
    where, suite, tokens = document["provenance"], document["suite"], document["sampling"]["max_tokens"]
    rounds = min(row["rounds"] for row in document["results"])
    same = min(row["identical_to_plain"] for row in document["results"])
    text = (
        f"{where['model']['name']}, {where['model']['weights']}, {where['machine']['processor']}, "
        f"{where['machine']['threads']} threads; prompts of {suite['name']}, {tokens} "
        f"tokens each; medians of {rounds} paired rounds and 95 % intervals. Least share of texts that "
        f"are identical to plain decoding's: {same:.0%}. Outside of passes: plain, then `{drafters[0]}`."
    )
    header = ["clients", "plain tokens/s", *(f"`{name}` / plain" for name in drafters)]
    header += [*(f"`{name}`: steps without drafts" for name in drafters), "outside of passes"]
    return "\n".join([*table(header, cells), "", *wrapped(text)]) + "\n"


def fixed_budgets() -> str:
    document = read("load-fixed")
    rows = {(row["clients"], row["drafter"]): row for row in document["results"]}
    loads = list(dict.fromkeys(clients for clients, _ in rows))
    cells = [
        [f"`{name}`", *(f"{rows[clients, name]['throughput_over_plain']['median']:.2f}" for clients in loads)]
        for name in dict.fromkeys(name for _, name in rows)
    ]
    where, suite, tokens = document["provenance"], document["suite"], document["sampling"]["max_tokens"]
    rounds = min(row["rounds"] for row in document["results"])
    requests = min(row["requests"] for row in document["runs"])
    text = (
        f"Throughput over plain decoding: {where['model']['name']}, {where['model']['weights']}, "
        f"{where['machine']['processor']}, {where['machine']['threads']} threads; {requests} prompts of "
        f"{suite['name']}, {tokens} tokens each; medians of {rounds} paired rounds. All answers are of one "
        "length, so plain decoding's requests of a few clients begin and end together and share every pass; "
        "where guesses are kept they part, and near the end fewer share one."
    )
    header = ["drafter", *(f"{clients} client{'s' * (clients > 1)}" for clients in loads)]
    return "\n".join([*table(header, cells), "", *wrapped(text)]) + "\n"


def simulation() -> str:
    document = read("simulated")
    cells = [
        [
            str(row["clients"]),
            f"`{row['drafter']}`",
            f"{row['measured']['tokens_per_second']:.1f}",
            f"{row['simulated']['tokens_per_second']:.1f}",
            f"{row['ratio']:.2f}",
            f"{row['ratio_from_lightest']:.2f}",
            f"{row['measured']['mean_accepted_length']:.2f}, {row['simulated']['mean_accepted_length']:.2f}",
            f"{row['measured']['pass_ms']:.1f}, {row['simulated']['pass_ms']:.1f}",
        ]
        for row in document["results"]
    ]
    where, requests = document["provenance"], document["results"][0]["requests"]
    text = (
        f"{where['model']['name']}, {where['model']['weights']}, {where['machine']['processor']}, "
        f"{where['machine']['threads']} threads; {requests} prompts of {document['suite']}, at most "
        f"{document['max_tokens']} tokens each. From 1 client: with the drafts, their times and the overhead "
        "of one client alone."
    )
    header = ["clients", "drafter", "tokens/s", "simulated", "ratio", "ratio, from 1 client"]
    header += ["τ: measured, simulated", "ms of a pass: measured, simulated"]
    return "\n".join([*table(header, cells), "", *wrapped(text)]) + "\n"


def rewritten(page: str, said: Sequence[Callable[[], str]] = (figures,)) -> str:
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    assert len(pattern.findall(page)) == len(said), "the page has lost its markers"
    parts = iter(said)
    return pattern.sub(lambda _: BEGIN + next(parts)() + END, page)


PAGES: dict[Path, tuple[Callable[[], str], ...]] = {
    ROOT / "README.md": (figures,),
    ROOT / "docs" / "benchmarks.md": (under_load, fixed_budgets, simulation, accepted_lengths, rule_costs),
}


if __name__ == "__main__":
    for path, said in PAGES.items():
        path.write_text(rewritten(path.read_text(encoding="utf-8"), said), encoding="utf-8")
