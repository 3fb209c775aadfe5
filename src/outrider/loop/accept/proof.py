"""Proofs by enumeration: a rule is run on every outcome of its draws, in exact rational arithmetic."""

from __future__ import annotations

import random
from fractions import Fraction

from outrider.loop.accept.arithmetic import entropy
from outrider.loop.accept.base import Rule
from outrider.loop.accept.enumeration import (
    EnumeratingDraws,
    EnumeratingSource,
    Outcome,
    Text,
    law_of,
    outcomes,
)
from outrider.loop.accept.worlds import KINDS, TREES, Case, Model, Rational
from outrider.types import DraftTree, Guarantee, Scored


class ExactLaws:
    """The rational laws of a tree's rows; implements `outrider.types.Laws`."""

    def __init__(self, model: Model, text: Text, tree: DraftTree) -> None:
        texts = [text]
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            texts.append((*texts[parent + 1], token))
        self._laws = [model(text) for text in texts]

    def __len__(self) -> int:
        return len(self._laws)

    def __getitem__(self, row: int, /) -> Rational:
        return self._laws[row]

    def probability(self, row: int, token: int) -> Fraction:
        """Return one token's probability at a row."""
        return self._laws[row][token]

    def mode(self, row: int) -> int:
        """Return the most likely token of a row, the lowest id among equals."""
        return self._laws[row].index(max(self._laws[row]))

    def entropy(self, row: int) -> float:
        """Return the entropy of a row's law in nats."""
        return entropy(self._laws[row])


def speculate(rule: Rule, case: Case, outcome: Outcome) -> Text:
    """Decode `case` by drafting and deciding, as the loop does; return its first `horizon` tokens."""
    text: Text = ()
    source = EnumeratingSource(outcome)
    drafts = iter(case.drafts)
    while len(text) < case.horizon:
        draft = next(drafts, None)
        tree = DraftTree() if draft is None else draft(text, source.for_draft(rule, len(text)))
        scored = Scored(tree, ExactLaws(case.target, text, tree))
        verdict = rule.decide(scored, source.for_rule(rule, len(text)))
        text = (*text, *(tree.tokens[node] for node in verdict.path), verdict.token)
    return text[: case.horizon]


def plain(rule: Rule, case: Case, outcome: Outcome) -> Text:
    """Decode `case` from the target alone, with the noise that all share."""
    text: Text = ()
    while len(text) < case.horizon:
        law = case.target(text)
        draws = EnumeratingDraws(outcome, None, len(text))
        text = (*text, draws.token(law, 0) if rule.samples else law.index(max(law)))
    return text


def check(rule: Rule, case: Case) -> str | None:
    """Return how `rule` breaks its guarantee on this case, or None where it holds in every outcome."""
    if rule.guarantee is Guarantee.SAME_TOKENS:
        for text, outcome in outcomes(lambda outcome: speculate(rule, case, outcome)):
            expected = plain(rule, case, outcome)
            if text != expected:
                return f"emitted {text} where plain decoding emits {expected}"
        return None  # so both texts have one law, too
    found = law_of(lambda outcome: speculate(rule, case, outcome))
    expected_law = law_of(lambda outcome: plain(rule, case, outcome))
    for text in sorted(found.keys() | expected_law.keys()):
        if found.get(text, 0) != expected_law.get(text, 0):
            return f"{text} has probability {found.get(text, 0)}, not {expected_law.get(text, 0)}"
    return None


def prove(rule: Rule, *, cases: int = 50, seed: int = 0) -> list[tuple[str, bool, str]]:
    """Check a rule's guarantee on `cases` random worlds of each kind; return (name, passed, detail) of each.

    Every world is decided exactly, over all outcomes; the detail is the first counterexample. A lossy rule
    promises nothing that could be checked, so nothing is returned for it.
    """
    if rule.guarantee is Guarantee.LOSSY:
        return []
    kinds = {**KINDS, **(TREES if rule.serves_trees else {})}
    results = []
    for name, kind in kinds.items():
        chance = random.Random(f"{seed}:{name}")
        faults = (check(rule, kind(chance)) for _ in range(cases))
        fault = next((fault for fault in faults if fault is not None), None)
        detail = f"exact in every outcome of {cases} random cases" if fault is None else fault
        results.append((name, fault is None, detail))
    return results
