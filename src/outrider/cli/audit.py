"""`outrider audit`: are the promises kept, with this model, on this machine?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.cli import options
from outrider.cli.command import Command
from outrider.errors import OptionError, UnknownNameError
from outrider.registry import RULES

if TYPE_CHECKING:
    from outrider.bench.audit import Check
    from outrider.sampling.params import SamplingParams

NOT_TAKEN = {
    "seed": "an audit runs many seeds",
    "n": "every text is audited by itself",
    "best_of": "every text is audited by itself",
    "max_tokens": "give --max-tokens",
    "logits_processors": "a function cannot be written on a command line",
}
"""Sampling options that `--option` does not take, and why."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def audit(
    model: options.Model,
    drafter: options.Drafter = "suffix",
    drafter_option: options.DrafterOption = None,
    rule: options.Rule = "auto",
    guarantee: options.GuaranteeOption = None,
    allow_lossy: options.AllowLossy = False,
    budget: options.Budget = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="A sampling option under which to look, as in top_p=0.9 (may be given several times).",
        ),
    ] = None,
    max_tokens: options.MaxTokens = 64,
    cases: Annotated[
        int, typer.Option("--cases", min=1, metavar="N", help="Small laws on which each rule is proved.")
    ] = 20,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, metavar="N", help="Sampled texts whose law is tested.")
    ] = 100,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="Seed of the laws and tokens drawn.")] = 0,
    weights: options.Weights = "auto",
    activations: options.Activations = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Check that the promises are kept.

    Rules are exact, the loop is exact under these options, rows don't depend on their neighbours, drafts
    don't change the tokens, and sampled text follows the model's laws.
    """
    options.check_names([drafter], rule, guarantee, allow_lossy)
    settings = options.drafter_options(drafter_option)
    params = _params(option or [], max_tokens)

    from outrider.bench import audit as bench
    from outrider.cli import terminal
    from outrider.cli.documents import one_line
    from outrider.cli.loading import load_llm
    from outrider.loop.accept.table import can_sample

    notes = terminal.console(stderr=True)
    llm = load_llm(
        model,
        notes,
        drafter=drafter,
        drafter_options=settings,
        rule=rule,
        guarantee=guarantee,
        lossy=allow_lossy,
        weights=weights,
        activations=activations,
        device=device,
        budget=budget,
        threads=threads,
    )
    llm.stream([0], params).close()  # what this model cannot honour is refused before anything is checked
    proved = list(RULES) if rule == "auto" else [rule] if rule in RULES else []
    parts = {
        "rules": ("proving the rules", bench.rule_checks(proved, cases=cases, seed=seed)),
        "loop": (
            "enumerating the loop",
            bench.loop_checks(drafter, rule, guarantee, params, options=settings),
        ),
        "rows": ("comparing rows", bench.row_checks(llm.model.target, seed=seed)),
        "tokens": ("comparing texts", bench.identity_checks(llm, params)),
    }
    if can_sample(rule):
        parts["law"] = ("testing the law", bench.law_checks(llm, params, seeds=seeds))
    checks: list[tuple[str, Check]] = []
    for part, (doing, found) in parts.items():
        with notes.status(doing):
            for check in found:
                checks.append((part, check))
                if not as_json:
                    _print_check(check)
    verdicts = {part: all(check.passed for own, check in checks if own == part) for part in parts}
    if as_json:
        rows = [_row(part, check) for part, check in checks]
        document = {"checks": rows, "verdicts": verdicts, "passed": all(verdicts.values())}
        print(one_line(document), flush=True)
    else:
        print(", ".join(f"{part}: {'ok' if passed else 'FAILED'}" for part, passed in verdicts.items()))
        print("all checks passed" if all(verdicts.values()) else "some checks FAILED")
    if not all(verdicts.values()):
        raise typer.Exit(1)


def _params(words: list[str], max_tokens: int) -> SamplingParams:
    """Return the parameters of `--option` words, NAME=VALUE each, the value as in JSON or a bare text."""
    from outrider.sampling.params import SamplingParams

    values: dict[str, Any] = {}
    known = [name for name in SamplingParams.__dataclass_fields__ if name not in NOT_TAKEN]
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise OptionError(f"--option {word!r}: write NAME=VALUE, as in top_p=0.9")
        if name in NOT_TAKEN:
            raise OptionError(f"--option {name} is not taken: {NOT_TAKEN[name]}; leave it out")
        if name not in known:
            raise UnknownNameError("sampling option", name, known)
        if name in values:
            raise OptionError(f"--option {word!r}: {name} is set already; give it once")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    if isinstance(values.get("logit_bias"), dict):  # JSON writes its keys as texts
        values["logit_bias"] = {
            int(token) if token.lstrip("-").isdigit() else token: bias
            for token, bias in values["logit_bias"].items()
        }
    return SamplingParams(**values, max_tokens=max_tokens)


def _row(part: str, check: Check) -> dict[str, object]:
    return {"part": part, "name": check.name, "passed": check.passed, "detail": check.detail}


def _print_check(check: Check) -> None:
    print(f"{'ok    ' if check.passed else 'FAILED'} {check.name}: {check.detail}", flush=True)
