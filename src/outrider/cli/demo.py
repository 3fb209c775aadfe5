"""`outrider demo`: plain and speculative decoding of the embedded model, side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from outrider.cli import options
from outrider.cli.command import Command

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from outrider.engine.result import Result
    from outrider.llm import LLM
    from outrider.sampling.params import SamplingParams

app = typer.Typer(add_completion=False, rich_markup_mode=None)

PROMPTS = {
    "edit a text": "edit-1",
    "edit code": "edit-2",
    "answer from notes": "rag-1",
    "a question": "qa-1",
}
"""What is shown, each with the prompt of the package's own suite that stands for it."""


@app.command(cls=Command)
def demo(
    max_tokens: options.MaxTokens = 112,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = 0,
    weights: options.Weights = "auto",
    activations: options.Activations = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Show the same text, sooner: about a minute."""
    from outrider.sampling.params import SamplingParams

    params = SamplingParams(temperature=temperature, seed=seed, max_tokens=max_tokens)

    import outrider
    from outrider.bench.suites import OWN
    from outrider.cli import terminal
    from outrider.cli.documents import one_line

    prompts = {prompt.id: prompt.turns[0] for prompt in OWN.read().prompts}
    out = None if as_json else terminal.console()
    notes = terminal.console(stderr=True)
    with notes.status("loading the embedded model"):
        plain = outrider.load(
            "demo", drafter="none", weights=weights, activations=activations, threads=threads
        )
        drafting = plain.using(drafter="suffix")
        for llm in (plain, drafting):
            llm.generate("Hello", replace(params, max_tokens=8))
    rows = [
        _compare(title, prompts[key], plain, drafting, params, out, notes) for title, key in PROMPTS.items()
    ]
    identical = all(row["identical"] for row in rows)
    if out is None:
        print(one_line({"prompts": rows, "identical": identical}), flush=True)
    else:
        out.print(terminal.legend(colour=terminal.has_colour(out)))
        out.print(_table(rows))
        out.print(
            "All texts identical, token for token." if identical else "The texts differ: this is a fault."
        )
    if not identical:
        raise typer.Exit(1)


def _compare(
    title: str,
    prompt: str,
    plain: LLM,
    drafting: LLM,
    params: SamplingParams,
    out: Console | None,
    notes: Console,
) -> dict[str, Any]:
    """Decode one prompt both ways, print the second as it comes, and return the row of the table."""
    from rich.text import Text

    from outrider.cli.stream import follow

    if out is not None:
        out.print(Text(f"{title}: {prompt.splitlines()[0]}", style="bold"))
    with notes.status("plain decoding"):
        expected = plain.generate(prompt, params, chat=True)
    result: Result | None = None
    for chunk in follow(drafting.stream(prompt, params, chat=True), drafting, out, show=True):
        result = chunk.result or result
    assert result is not None, "the last chunk of a stream carries the result"
    row: dict[str, Any] = {
        "name": title,
        "prompt": prompt,
        "text": result.text,
        "tokens": result.completion_tokens,
        "plain_tokens_per_second": expected.timing.decode_tokens_per_second,
        "suffix_tokens_per_second": result.timing.decode_tokens_per_second,
        "mean_accepted_length": result.speculation.mean_accepted_length,
        "identical": result.token_ids == expected.token_ids,
    }
    row["ratio"] = _ratio(row["suffix_tokens_per_second"], row["plain_tokens_per_second"])
    if out is not None:
        out.print("\n")
    return row


def _ratio(new: float | None, old: float | None) -> float | None:
    return new / old if new and old else None


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for heading in ("prompt", "tokens", "plain", "suffix", "ratio", "tokens per pass", "identical"):
        table.add_column(heading, justify="left" if heading == "prompt" else "right", no_wrap=True)
    for row in rows:
        speeds = [row["plain_tokens_per_second"], row["suffix_tokens_per_second"]]
        table.add_row(
            row["name"],
            str(row["tokens"]),
            *("–" if speed is None else f"{speed:.1f} tokens/s" for speed in speeds),
            "–" if row["ratio"] is None else f"{row['ratio']:.2f}×",
            f"{row['mean_accepted_length']:.2f}",
            "yes" if row["identical"] else "NO",
        )
    return table
