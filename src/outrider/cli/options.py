"""Options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrider.errors import OptionError
from outrider.registry import DRAFTERS, LOSSY_RULES, PEERS, RULES

DRAFTER_HELP = (
    f"Drafter: {', '.join(DRAFTERS)}; lm takes a model after a colon (lm:PATH), merged and auto take "
    "two or more others (merged:suffix+recycle, auto:suffix+lm:PATH)."
)
PEER_HELP = (
    f"Run another engine on the same prompts: {', '.join(PEERS)}; "
    "llama.cpp takes weights after a colon (llama.cpp:f16). May be given several times."
)

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="'demo', a Hugging Face directory, a .gguf file, or a hub id (org/name)."
    ),
]
Drafter = Annotated[str, typer.Option("--drafter", metavar="NAME[:MODEL]", help=DRAFTER_HELP)]
DrafterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--drafter-option", metavar="NAME=VALUE", help="Set an option of the drafter (several times)."
    ),
]
Rule = Annotated[
    str,
    typer.Option(
        "--rule",
        metavar="NAME",
        help=f"Acceptance rule: auto, {', '.join(RULES)}; with --allow-lossy also {', '.join(LOSSY_RULES)}.",
    ),
]
GuaranteeOption = Annotated[
    str | None,
    typer.Option(
        "--guarantee",
        metavar="NAME",
        help="What must be kept: same_tokens (auto does), or same_law, by which auto keeps more of what a "
        "draft model draws. Where nothing is drawn the tokens stay the same, which is more.",
    ),
]
AllowLossy = Annotated[
    bool,
    typer.Option("--allow-lossy", help="Consent to a rule that changes the distribution of the text."),
]
Budget = Annotated[
    int | None,
    typer.Option("--budget", min=0, metavar="N", help="Most draft tokens per pass (default: 15)."),
]
FillBudget = Annotated[
    bool, typer.Option("--fill-budget", help="Draft the whole budget, whatever a pass costs here.")
]
Weights = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="NAME",
        help="Format of the weights: auto, fp32, fp16, bf16, int8, or file (a GGUF file's own blocks).",
    ),
]
Activations = Annotated[
    str,
    typer.Option(
        "--activations",
        metavar="NAME",
        help="What weights of int8 or of blocks are multiplied with: auto (int16), int16, or int8.",
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="NAME", help="auto, cpu, cuda or cuda:N.")]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, max=1024, metavar="N", help="Processor threads (default: what torch takes)."
    ),
]
MaxTokens = Annotated[
    int, typer.Option("--max-tokens", min=1, metavar="N", help="Most tokens to generate per prompt.")
]
Temperature = Annotated[
    float, typer.Option("--temperature", metavar="T", help="0 takes the most likely token every time.")
]
TopK = Annotated[
    int, typer.Option("--top-k", metavar="K", help="Keep the K most likely tokens; 0 keeps all.")
]
TopP = Annotated[
    float,
    typer.Option("--top-p", metavar="P", help="Keep the most likely tokens that together reach mass P."),
]
MinP = Annotated[
    float,
    typer.Option("--min-p", metavar="P", help="Drop tokens less likely than P times the most likely one."),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="S", help="The same seed gives the same text (default: random)."),
]
IgnoreEos = Annotated[
    bool, typer.Option("--ignore-eos", help="Go on after the model's end-of-turn token, up to --max-tokens.")
]
SuiteOption = Annotated[
    str,
    typer.Option("--suite", metavar="NAME|FILE", help="own, or prompts in a .jsonl or .txt file."),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N prompts of each task.")
]
DrafterOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--drafter-option",
        metavar="DRAFTER.NAME=VALUE",
        help="Set an option of a drafter (several times).",
    ),
]
Chat = Annotated[
    bool | None,
    typer.Option("--chat/--no-chat", help="Chat template or bare prompts (default: if there is one)."),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document as the last line of stdout, and no text.")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Also write the result document to this file.")
]


def drafter_options(given: list[str] | None) -> dict[str, str]:
    """Return options of a drafter by name; OptionError for one without an equals sign or given twice."""
    bad = next((text for text in given or () if "=" not in text), None)
    if bad is not None:
        raise OptionError(f"--drafter-option {bad!r} has no value; write NAME=VALUE")
    found: dict[str, str] = {}
    for text in given or ():
        name, _, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if name in found:
            raise OptionError(f"--drafter-option {text!r}: {name} is set already; give it once")
        found[name] = value
    return found


def options_by_drafter(given: list[str] | None, drafters: list[str]) -> dict[str, dict[str, str]]:
    """Return options written DRAFTER.NAME=VALUE by drafter; OptionError for a drafter that is not run."""
    found: dict[str, list[str]] = {}
    names = {drafter.partition(":")[0] for drafter in drafters}
    for text in given or ():
        drafter, dot, option = text.partition(".")
        if not dot or drafter not in names:
            known = ", ".join(sorted(names))
            raise OptionError(f"--drafter-option {text!r}: write DRAFTER.NAME=VALUE with one of {known}")
        found.setdefault(drafter, []).append(option)
    return {drafter: drafter_options(options) for drafter, options in found.items()}


def check_names(drafters: list[str], rule: str, guarantee: str | None = None, lossy: bool = False) -> None:
    """Look the names up before a model is loaded for them; UnknownNameError names the near ones."""
    from outrider.drafters import parse_drafter

    for drafter in drafters:
        parse_drafter(drafter)
    from outrider.loop.accept.table import RuleChoice

    RuleChoice(rule, guarantee, lossy)
