"""Sampling options of `outrider generate` that no other command has, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrider.errors import OptionError

_SEVERAL = "(may be given several times)"

TypicalP = Annotated[
    float,
    typer.Option("--typical-p", metavar="P", help="Keep the tokens of most typical surprise, up to mass P."),
]
RepetitionPenalty = Annotated[
    float,
    typer.Option(
        "--repetition-penalty", metavar="R", help="Make tokens of prompt and output less likely; 1 is off."
    ),
]
PresencePenalty = Annotated[
    float,
    typer.Option("--presence-penalty", metavar="X", help="Taken from logits of tokens the output holds."),
]
FrequencyPenalty = Annotated[
    float,
    typer.Option("--frequency-penalty", metavar="X", help="The same, once for each time it holds them."),
]
NoRepeatNgram = Annotated[
    int,
    typer.Option("--no-repeat-ngram", min=0, metavar="N", help="No N tokens in a row occur twice; 0 is off."),
]
LogitBias = Annotated[
    list[str] | None,
    typer.Option("--logit-bias", metavar="ID=X", help=f"Add X to the logit of a token {_SEVERAL}."),
]
AllowToken = Annotated[
    list[int] | None,
    typer.Option("--allow-token", metavar="ID", help=f"Emit these tokens only {_SEVERAL}."),
]
BanToken = Annotated[
    list[int] | None,
    typer.Option("--ban-token", metavar="ID", help=f"Never emit this token {_SEVERAL}."),
]
BanWord = Annotated[
    list[str] | None,
    typer.Option("--ban-word", metavar="TEXT", help=f"Never emit this text's tokens {_SEVERAL}."),
]
JsonSchema = Annotated[
    Path | None,
    typer.Option("--json-schema", metavar="FILE", help="The output is JSON of the schema in this file."),
]
JsonObject = Annotated[bool, typer.Option("--json-object", help="The output is a JSON object.")]
Regex = Annotated[
    str | None,
    typer.Option("--regex", metavar="REGEX", help="The whole output matches this regular expression."),
]
Grammar = Annotated[
    Path | None,
    typer.Option("--grammar", metavar="FILE", help="The output is of the grammar in this file (Lark, GBNF)."),
]
Choice = Annotated[
    list[str] | None,
    typer.Option("--choice", metavar="TEXT", help=f"The output is this text, or another one {_SEVERAL}."),
]
MinTokens = Annotated[
    int, typer.Option("--min-tokens", min=0, metavar="N", help="Fewest tokens before the text may end.")
]
Samples = Annotated[
    int, typer.Option("--n", min=1, metavar="N", help="How many texts to generate (1 to 128).")
]
BestOf = Annotated[
    int | None,
    typer.Option("--best-of", metavar="N", help="Generate N texts and keep the --n most likely ones."),
]
Logprobs = Annotated[
    int | None,
    typer.Option(
        "--logprobs", metavar="N", help="Each token's logprob and the N most likely ones (with --json)."
    ),
]
LogprobsOf = Annotated[
    str | None,
    typer.Option(
        "--logprobs-of",
        metavar="NAME",
        help="With --logprobs: raw (the model's own, default) or processed (after options).",
    ),
]
PromptLogprobs = Annotated[
    int | None,
    typer.Option("--prompt-logprobs", metavar="N", help="The same for the prompt's tokens (with --json)."),
]


def read_biases(words: list[str] | None) -> dict[int, float]:
    """Return the biases of `--logit-bias` words, ID=X each; OptionError for what is none."""
    biases: dict[int, float] = {}
    for word in words or ():
        token, _, value = word.partition("=")
        try:
            id, bias = int(token), float(value)
        except ValueError:
            raise OptionError(f"--logit-bias {word!r}: write ID=X, as in 1734=-2.5") from None
        if id in biases:
            raise OptionError(f"--logit-bias {word!r}: token {id} has a bias already; give one")
        biases[id] = bias
    return biases


def read_grammar(option: str, file: Path | None) -> str | None:
    """Return the text of the file that an option names, None where it names none; OptionError where it
    cannot be read.
    """
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{option}: cannot read {str(file)!r} as UTF-8 text: {error}") from error


def check_json(as_json: bool, logprobs: int | None, prompt_logprobs: int | None) -> None:
    """Raise OptionError where logprobs are asked for and there is no document to hold them."""
    for option, value in (("--logprobs", logprobs), ("--prompt-logprobs", prompt_logprobs)):
        if value is not None and not as_json:
            raise OptionError(f"{option} goes into the document; add --json")


def check_logprobs_of(logprobs_of: str | None, logprobs: int | None) -> None:
    """Raise OptionError where it is told of what logprobs are, and none are asked for."""
    if logprobs_of is not None and logprobs is None:
        raise OptionError("--logprobs-of says of what logprobs are, and none are asked for; add --logprobs N")
