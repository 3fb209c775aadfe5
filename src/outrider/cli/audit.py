"""`outrider audit`: are the promises kept, with this model, on this machine?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from outrider.cli import options
from outrider.registry import RULES

if TYPE_CHECKING:
    from outrider.bench.audit import Check

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def audit(
    model: options.Model,
    drafter: options.Drafter = "suffix",
    rule: options.Rule = "auto",
    budget: options.Budget = None,
    max_tokens: options.MaxTokens = 64,
    cases: Annotated[
        int, typer.Option("--cases", min=1, metavar="N", help="Small laws on which each rule is proved.")
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="Seed of the laws and tokens drawn.")] = 0,
    weights: options.Weights = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Check that the promises are kept.

    Rules are exact, rows don't depend on their neighbours, and drafts don't change the tokens.
    """
    options.check_names([drafter], rule)

    from outrider.bench.audit import identity_checks, row_checks, rule_checks
    from outrider.cli import terminal
    from outrider.cli.documents import one_line
    from outrider.cli.loading import load_llm

    notes = terminal.console(stderr=True)
    llm = load_llm(
        model,
        notes,
        drafter=drafter,
        rule=rule,
        weights=weights,
        device=device,
        budget=budget,
        threads=threads,
    )
    checks: list[Check] = []
    parts = (
        ("proving the rules", rule_checks(list(RULES) if rule == "auto" else [rule], cases=cases, seed=seed)),
        ("comparing rows", row_checks(llm.model.target, seed=seed)),
        ("comparing texts", identity_checks(llm, max_tokens=max_tokens)),
    )
    for doing, part in parts:
        with notes.status(doing):
            for check in part:
                checks.append(check)
                if not as_json:
                    _print_check(check)
    passed = all(check.passed for check in checks)
    if as_json:
        print(one_line({"checks": [_row(check) for check in checks], "passed": passed}), flush=True)
    else:
        print("all checks passed" if passed else "some checks FAILED")
    if not passed:
        raise typer.Exit(1)


def _row(check: Check) -> dict[str, object]:
    return {"name": check.name, "passed": check.passed, "detail": check.detail}


def _print_check(check: Check) -> None:
    print(f"{'ok    ' if check.passed else 'FAILED'} {check.name}: {check.detail}", flush=True)
