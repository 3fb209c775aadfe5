"""Checks of what is promised, on the model at hand: exact rules, exact loop, rows, texts, laws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outrider.bench.audit.check import Check
from outrider.bench.audit.laws import law_checks
from outrider.bench.audit.loop import loop_checks
from outrider.bench.audit.rows import row_checks
from outrider.bench.audit.texts import identity_checks

__all__ = ["Check", "identity_checks", "law_checks", "loop_checks", "row_checks", "rule_checks"]


def rule_checks(rules: Sequence[str], *, cases: int, seed: int) -> Iterator[Check]:
    """Prove rules by exact enumeration on rational arithmetic over small laws."""
    from outrider.loop.accept.proof import prove
    from outrider.registry import RULES

    for name in rules:
        for check, passed, detail in prove(RULES.load(name)(), cases=cases, seed=seed):
            yield Check(f"rule {name}: {check}", passed, detail)
