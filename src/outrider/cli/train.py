"""`outrider train`: what drafts for a target, trained on texts that the target writes."""

from __future__ import annotations

import typer

from outrider.cli import options
from outrider.cli import train_options as own
from outrider.cli.command import Command
from outrider.cli.train_distill import distill
from outrider.cli.train_eagle3 import eagle3
from outrider.cli.train_medusa import medusa
from outrider.cli.train_scale import scale

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def train() -> None:
    """Train what drafts for a target, on texts that the target writes itself.

    A run that was stopped, by Ctrl-C or in any other way, goes on with --resume.
    """


@app.command(cls=Command)
def data(
    target: options.Model,
    out: own.Out,
    prompts: own.Prompts = None,
    count: own.Count = None,
    temperature: own.Temperatures = "0,0.7,1",
    max_tokens: own.AnswerTokens = 256,
    running: own.Running = 16,
    seed: own.Seed = 0,
    weights: options.Weights = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Have the target write texts to learn from, each the answer to a prompt.

    Run again with the same options, it continues where it stopped.
    """
    writing = own.writing_of(temperature, max_tokens, seed)

    from outrider.bench.provenance import provenance
    from outrider.cli import terminal
    from outrider.cli.documents import one_line
    from outrider.cli.loading import load_llm
    from outrider.cli.train_progress import showing
    from outrider.train.generate import write_data
    from outrider.train.group import check_alone
    from outrider.train.prompts import read_prompts

    check_alone("outrider train data")
    read = None if prompts is None else read_prompts(prompts)
    if read is None and count is None:
        count = own.OWN_COUNT
    notes = terminal.console(stderr=True)
    llm = load_llm(target, notes, weights=weights, device=device, threads=threads)
    with showing(notes) as show:
        store = write_data(llm, out, writing, prompts=read, count=count, running=running, report=show.writing)
    examples = store.examples
    document = {
        "texts": len(examples),
        "passed_over": len(store) - len(examples),
        "tokens": sum(len(text.tokens) for text in examples),
        "written_tokens": sum(text.written for text in examples),
        "provenance": provenance(llm.model),
    }
    if as_json:
        print(one_line(document), flush=True)
        return
    console = terminal.console()
    console.print(f"{len(examples)} texts, {document['written_tokens']} tokens written by {llm.model.name}")
    console.print(f"next: outrider train eagle3 {target} --data {out} --out …")


app.command(cls=Command)(distill)
app.command(cls=Command)(eagle3)
app.command(cls=Command)(medusa)
app.command(cls=Command)(scale)
