"""`outrider generate`: one prompt, its text as it comes, and what speculation did for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from outrider.cli import options, sampling
from outrider.cli.command import Command
from outrider.cli.interrupts import INTERRUPTED, document_on_interrupt
from outrider.errors import OptionError, PromptError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def generate(
    model: options.Model,
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="TEXT", help="The prompt; - reads it from stdin.")
    ] = None,
    prompt_file: Annotated[
        Path | None, typer.Option("--prompt-file", metavar="FILE", help="Read the prompt from a file.")
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="Put the prompt through the model's chat template.")
    ] = False,
    drafter: options.Drafter = "suffix",
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
    typical_p: sampling.TypicalP = 1.0,
    repetition_penalty: sampling.RepetitionPenalty = 1.0,
    presence_penalty: sampling.PresencePenalty = 0.0,
    frequency_penalty: sampling.FrequencyPenalty = 0.0,
    no_repeat_ngram: sampling.NoRepeatNgram = 0,
    logit_bias: sampling.LogitBias = None,
    allow_token: sampling.AllowToken = None,
    ban_token: sampling.BanToken = None,
    ban_word: sampling.BanWord = None,
    json_schema: sampling.JsonSchema = None,
    json_object: sampling.JsonObject = False,
    regex: sampling.Regex = None,
    grammar: sampling.Grammar = None,
    choice: sampling.Choice = None,
    seed: options.Seed = None,
    n: sampling.Samples = 1,
    best_of: sampling.BestOf = None,
    logprobs: sampling.Logprobs = None,
    logprobs_of: sampling.LogprobsOf = None,
    prompt_logprobs: sampling.PromptLogprobs = None,
    min_tokens: sampling.MinTokens = 0,
    max_tokens: options.MaxTokens = 128,
    stop: Annotated[
        list[str] | None,
        typer.Option("--stop", metavar="TEXT", help="End before this text (may be given several times)."),
    ] = None,
    stop_token_id: Annotated[
        list[int] | None,
        typer.Option("--stop-token-id", metavar="ID", help="End at this token (may be given several times)."),
    ] = None,
    ignore_eos: options.IgnoreEos = False,
    weights: options.Weights = "auto",
    activations: options.Activations = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    show: Annotated[
        bool, typer.Option("--show", help="Show where each token came from, in colour or with marks.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Generate text for one prompt."""
    with document_on_interrupt(as_json, drafter, seed):
        from outrider.sampling.params import SamplingParams

        params = SamplingParams(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            typical_p=typical_p,
            repetition_penalty=repetition_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            no_repeat_ngram_size=no_repeat_ngram,
            logit_bias=sampling.read_biases(logit_bias),
            allowed_tokens=tuple(allow_token) if allow_token else None,
            banned_tokens=tuple(ban_token or ()),
            banned_words=tuple(ban_word or ()),
            json_schema=sampling.read_grammar("--json-schema", json_schema),
            json_object=json_object,
            regex=regex,
            grammar=sampling.read_grammar("--grammar", grammar),
            choice=tuple(choice) if choice else None,
            seed=seed,
            n=n,
            best_of=best_of,
            logprobs=logprobs,
            logprobs_of=logprobs_of or "raw",
            prompt_logprobs=prompt_logprobs,
            min_tokens=min_tokens,
            max_tokens=max_tokens,
            stop=tuple(stop or ()),
            stop_token_ids=tuple(stop_token_id or ()),
            ignore_eos=ignore_eos,
        )
        sampling.check_json(as_json, logprobs, prompt_logprobs)
        sampling.check_logprobs_of(logprobs_of, logprobs)
        options.check_names([drafter], rule, guarantee, allow_lossy)
        text = read_prompt(prompt, prompt_file)

        from outrider.cli import terminal
        from outrider.cli.documents import one_line
        from outrider.cli.loading import load_llm
        from outrider.cli.stream import run_samples, run_stream

        human = terminal.console(stderr=as_json)
        notes = terminal.console(stderr=True)
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
        follow = run_stream if params.samples == 1 else run_samples
        document = follow(
            llm, text, params, chat=chat, out=None if as_json and not show else human, notes=notes, show=show
        )
    if as_json:
        print(one_line(document), flush=True)
    if document["finish_reason"] == "abort":
        raise typer.Exit(INTERRUPTED)


def read_prompt(prompt: str | None, file: Path | None) -> str:
    """Return the prompt from the one place that was given."""
    if (prompt is None) == (file is None):
        raise OptionError("give the prompt with either --prompt TEXT (- for stdin) or --prompt-file FILE")
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"--prompt-file: cannot read {str(file)!r} as UTF-8 text: {error}") from error
    else:
        assert prompt is not None
        text = sys.stdin.read() if prompt == "-" else prompt
    if not text:
        raise PromptError("the prompt is empty; give some text with --prompt, --prompt-file or on stdin")
    return text
