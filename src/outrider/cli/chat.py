"""`outrider chat`: a conversation in the terminal, every token in the colour of where it came from."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.cli import options
from outrider.cli.command import Command
from outrider.cli.interrupts import INTERRUPTED
from outrider.errors import OutriderError

if TYPE_CHECKING:
    from rich.console import Console

    from outrider.llm import LLM
    from outrider.sampling.params import SamplingParams

KEPT = 256 << 20
"""Bytes of keys and values of earlier turns, which are then not read again."""
HELP = "/new: a new chat · /drafter off|on · /quit or Ctrl-D: the end · Ctrl-C: stop an answer · //: a /"

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def chat(
    model: options.Model,
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="What the model is told first.")
    ] = None,
    drafter: options.Drafter = "auto",
    drafter_option: options.DrafterOption = None,
    rule: options.Rule = "auto",
    guarantee: options.GuaranteeOption = None,
    allow_lossy: options.AllowLossy = False,
    budget: options.Budget = None,
    fill_budget: options.FillBudget = False,
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    seed: options.Seed = None,
    max_tokens: options.MaxTokens = 512,
    weights: options.Weights = "auto",
    activations: options.Activations = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
) -> None:
    """Chat with a model in the terminal."""
    from outrider.sampling.params import SamplingParams

    params = SamplingParams(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed, max_tokens=max_tokens
    )
    options.check_names([drafter], rule, guarantee, allow_lossy)

    from outrider.cache.prefix import PrefixStore
    from outrider.cli import terminal
    from outrider.cli.loading import load_llm

    out, notes = terminal.console(), terminal.console(stderr=True)
    llm = load_llm(
        model,
        notes,
        drafter=drafter,
        drafter_options=options.drafter_options(drafter_option),
        rule=rule,
        guarantee=guarantee,
        lossy=allow_lossy,
        weights=weights,
        activations=activations,
        device=device,
        budget=budget,
        fill_budget=fill_budget,
        threads=threads,
    )
    llm.prefixes = PrefixStore.of_pages_like(llm.model.target.new_cache(), KEPT)
    notes.print(HELP)
    notes.print(terminal.legend(colour=terminal.has_colour(notes)))
    try:
        Conversation(llm, params, system, out, notes).run()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


class Conversation:
    """What was said so far, and how the next answer is drafted."""

    def __init__(
        self, llm: LLM, params: SamplingParams, system: str | None, out: Console, notes: Console
    ) -> None:
        self._drafting, self._plain = llm, llm.using(drafter="none")
        self._llm, self._params = llm, params
        self._out, self._notes = out, notes
        self._first = [] if system is None else [{"role": "system", "content": system}]
        self._messages: list[dict[str, Any]] = list(self._first)

    def run(self) -> None:
        """Take lines until the end of the input, or `/quit`."""
        with suppress(EOFError):
            while (line := _line()) != "/quit":
                if line.startswith("/") and not line.startswith("//"):
                    self._command(line.split())
                elif line.strip():
                    self._answer(line.removeprefix("/") if line.startswith("//") else line)

    def _command(self, words: list[str]) -> None:
        match words:
            case ["/new"]:
                self._messages = list(self._first)
                self._notes.print("a new chat")
            case ["/drafter", "off"]:
                self._llm = self._plain
                self._notes.print("plain decoding")
            case ["/drafter", "on"]:
                self._llm = self._drafting
                self._notes.print(f"drafting with {self._llm.drafter_name}")
            case ["/help"]:
                self._notes.print(HELP)
            case _:
                self._notes.print(f"no such command: {' '.join(words)}; {HELP}")

    def _answer(self, text: str) -> None:
        """Answer a message. One that fails, or is stopped before anything was said, is forgotten."""
        from outrider.cli.stream import run_stream

        asked = [*self._messages, {"role": "user", "content": text}]
        try:
            document = run_stream(
                self._llm,
                asked,
                self._params,
                chat=False,
                out=self._out,
                notes=self._notes,
                show=True,
                explained=True,
            )
        except OutriderError as error:
            self._notes.print(f"error: {error}")
            return
        if document["text"]:
            self._messages = [*asked, {"role": "assistant", "content": document["text"]}]


def _line() -> str:
    """Return the next line; EOFError at the end. On a terminal it is edited, and earlier ones come back."""
    if sys.stdin.isatty():
        with suppress(ImportError):
            import readline  # noqa: F401 - it serves `input` from now on
        return input("> ")
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\r\n")
