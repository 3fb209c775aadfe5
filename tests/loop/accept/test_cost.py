"""What a decision costs: no rule does work that cannot matter, and leaving it out decides nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from outrider.loop.accept.base import Rule
from outrider.loop.accept.recursive import Recursive
from outrider.loop.accept.traversal import Traversal
from outrider.registry import LOSSY_RULES, RULES
from outrider.sampling import rows
from outrider.sampling.keyed import KeyedSource
from outrider.sampling.law import LogitLaws, law
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree, Law, Scored, Verdict

NAMES = [*RULES, *LOSSY_RULES]
SAMPLED = SamplingParams(temperature=1.0)


class Eager(LogitLaws):
    """Works every law out, and takes single probabilities from it."""

    def __init__(self, logits: torch.Tensor, params: SamplingParams) -> None:
        super().__init__(logits, params)
        self._whole = [LogitLaws.__getitem__(self, row) for row in range(len(logits))]

    def __getitem__(self, row: int, /) -> torch.Tensor:
        return self._whole[row]

    def probability(self, row: int, token: int) -> float:
        return float(self._whole[row][token])

    def entropy(self, row: int) -> float:
        return rows.entropy_of(self._whole[row])


class Sizes(TorchDispatchMode):
    """Notes the size of every tensor that an operation returns and that is no view of another."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)}
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() not in given:
                self.made.append(tensor.numel())
        return result


def rule_of(name: str) -> Rule:
    rule: Rule = (RULES if name in RULES else LOSSY_RULES).load(name)()
    return rule


def drawn(
    rule: Rule, nodes: int, vocabulary: int, seed: int, *, chain: bool
) -> tuple[DraftTree, torch.Tensor]:
    """A tree drawn as the loop draws it, two children a node where it is no chain; the target's logits."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2.5 * torch.randn(nodes + 1, vocabulary, generator=generator)
    q = law(logits + torch.randn(logits.shape, generator=generator), SAMPLED)
    parents = [node - 1 if chain else (node - 2) // 2 if node >= 2 else -1 for node in range(nodes)]
    draws = KeyedSource(seed, 0).for_draft(rule, 7)
    tokens, laws, depths = [0] * nodes, list[Law | None]([None] * nodes), [0] * (nodes + 1)
    for parent in range(-1, nodes):
        own = q[parent + 1]
        children = [child for child, above in enumerate(parents) if above == parent]
        for child, token in zip(
            children, draws.tokens(own, len(children), depths[parent + 1], parent), strict=True
        ):
            tokens[child], depths[child + 1] = token, depths[parent + 1] + 1
            laws[child] = own if rule.reads_laws else None
    return DraftTree(tuple(tokens), tuple(parents), tuple(laws)), logits


def params_of(rule: Rule) -> SamplingParams:
    return SAMPLED if rule.samples else SamplingParams()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chain", [True, False])
def test_what_is_left_undone_decides_nothing(name: str, chain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference works out every law of the tree and uses no C++; every verdict must be the same."""
    rule = rule_of(name)
    if not chain and not rule.serves_trees:
        pytest.skip("a rule of chains")
    kept = 0
    for seed in range(60):
        tree, logits = drawn(rule, 12, 90, seed, chain=chain)
        draws = KeyedSource(seed, 0).for_rule(rule, 7)
        found = rule.decide(Scored(tree, LogitLaws(logits, params_of(rule))), draws)
        with monkeypatch.context() as patch:
            patch.setattr(rows, "core", lambda: None)
            assert found == rule.decide(Scored(tree, Eager(logits, params_of(rule))), draws)
        kept += len(found.path)
    assert kept > 20


def decided(rule: Rule, *, chain: bool, nodes: int = 32, vocabulary: int = 2048) -> tuple[list[int], Verdict]:
    tree, logits = drawn(rule, nodes, vocabulary, 3, chain=chain)
    laws, draws = LogitLaws(logits, params_of(rule)), KeyedSource(3, 0).for_rule(rule, 7)
    with Sizes() as sizes:
        verdict = rule.decide(Scored(tree, laws), draws)
    return sizes.made, verdict


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chain", [True, False])
def test_no_rule_makes_anything_larger_than_one_row(
    name: str, chain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = rule_of(name)
    if not chain and not rule.serves_trees:
        pytest.skip("a rule of chains")
    assert max(decided(rule, chain=chain)[0], default=0) <= 2048
    monkeypatch.setattr(rows, "core", lambda: None)
    assert max(decided(rule, chain=chain)[0], default=0) <= 2048


@pytest.mark.parametrize("name", ["block", "traversal", "rejection", "recursive", "optimal"])
def test_of_a_chain_only_the_rows_at_its_kept_end_are_ever_made(name: str) -> None:
    """Block verification made and kept the law of every row of a chain, for one number of each."""
    if rows.core() is None:
        pytest.skip("the C++ module was not built, or of an earlier version")
    made, verdict = decided(rule_of(name), chain=True)
    assert len(verdict.path) < 28
    # One law and one residual for the draw, the same for each node that its bound alone does not rule out.
    assert sum(size >= 2048 for size in made) <= 12


def test_a_law_is_not_kept_once_nobody_holds_it() -> None:
    laws = LogitLaws(torch.randn(3, 50), SAMPLED)
    first = laws[1]
    assert laws[1] is first
    before = first.tolist()
    del first
    assert laws[1].tolist() == before
    assert not len(laws._laws)


@pytest.mark.parametrize("name", ["block", "traversal", "recursive"])
def test_a_draft_law_is_not_summed_where_no_second_sibling_follows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traversal summed the draft's law at every node that it turned down, also on a chain."""

    def forbidden(law: Law) -> float:
        raise AssertionError("nothing asks for this sum")

    monkeypatch.setattr("outrider.loop.accept.offers.mass", forbidden)
    decided(rule_of(name), chain=True)
    tree, logits = drawn(Recursive(), 14, 64, 0, chain=False)
    draws = KeyedSource(0, 0).for_rule(Recursive(), 7)
    with pytest.raises(AssertionError, match="nothing asks"):
        Traversal().decide(Scored(tree, LogitLaws(logits, SAMPLED)), draws)
