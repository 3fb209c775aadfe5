"""Trees from a draft model: shapes, siblings as the rule asks, the law of the text, growth that pays."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import run, text_law, toy_model
from frequencies import follows
from matrix import make_drafter
from outrider.bench.audit import loop_checks
from outrider.errors import OptionError
from outrider.loop.draft.base import Ask
from outrider.loop.draft.held import TreeReader
from outrider.loop.draft.lm_tree import ModelTreeDrafter
from outrider.loop.draft.shape import parse_shape
from outrider.models.toy import ToyTarget
from outrider.registry import DRAFTERS
from outrider.sampling.keyed import SharedDraws, StepDraws
from outrider.sampling.noise import Purpose
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree, Siblings

VOCAB = 8
GREEDY = SamplingParams()
SAMPLED = SamplingParams(temperature=1.0, seed=1)


def ask(drafter: ModelTreeDrafter, tokens: list[int], params: SamplingParams, **changed: Any) -> Ask:
    made = Ask(
        state=drafter.open(tokens),
        tokens=tokens,
        budget=6,
        branch=True,
        params=params,
        draws=SharedDraws(1, 0, len(tokens)),
        wants_laws=False,
    )
    return replace(made, **changed)


def reads_laws(tokens: list[int], siblings: Siblings = Siblings.WITHOUT_REPLACEMENT) -> dict[str, Any]:
    draws = StepDraws(1, 0, len(tokens), Purpose.DRAFT)
    return {"draws": draws, "siblings": siblings, "wants_laws": True}


def text_to(tree: DraftTree, node: int) -> list[int]:
    return [*text_to(tree, tree.parents[node]), tree.tokens[node]] if node >= 0 else []


def duplicates(tree: DraftTree) -> int:
    return len(tree) - len(set(zip(tree.parents, tree.tokens, strict=True)))


@settings(max_examples=40)
@given(st.integers(0, 50), st.integers(1, 4), st.integers(1, 9), st.booleans(), st.booleans())
def test_a_grown_tree_holds_its_budget_and_no_sibling_twice(
    seed: int, width: int, budget: int, branch: bool, greedy: bool
) -> None:
    model = ToyTarget(VOCAB, seed=seed)
    drafter = ModelTreeDrafter(TreeReader(model, VOCAB), width=width)
    params = GREEDY if greedy else SAMPLED
    [tree] = drafter.propose([ask(drafter, [seed % VOCAB, 3], params, budget=budget, branch=branch)])
    assert 1 <= len(tree) <= budget
    assert duplicates(tree) == 0
    assert branch or tree.is_chain
    assert tree.laws is None
    assert all(len(tree.children(node)) <= width for node in range(-1, len(tree)))


def test_a_greedy_tree_with_the_whole_budget_holds_the_likeliest_nodes() -> None:
    """With free passes and every node expanded, best first finds the most probable nodes of all."""
    model = ToyTarget(4, seed=3, zeros=0.0)
    drafter = ModelTreeDrafter(TreeReader(model, 4), width=4)
    [tree] = drafter.propose([ask(drafter, [1, 2], GREEDY, budget=6)])
    chances: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    for _ in range(6):
        for text in [text for text in chances if len(text) == max(map(len, chances))]:
            for token, p in enumerate(model.law([1, 2, *text])):
                chances[*text, token] = chances[text] * p
    best = sorted((p for text, p in chances.items() if text), reverse=True)[:6]
    kept = [chances[tuple(text_to(tree, node))] for node in range(len(tree))]
    assert sorted(kept, reverse=True) == best


def test_a_fixed_shape_is_drafted_as_it_is_with_the_law_of_every_node() -> None:
    model = ToyTarget(VOCAB, seed=2, zeros=0.0)
    shape = parse_shape("3,2,1")
    drafter = ModelTreeDrafter(TreeReader(model, VOCAB), shape=shape)
    tokens = [1, 2, 3]
    [tree] = drafter.propose([ask(drafter, tokens, SAMPLED, budget=20, **reads_laws(tokens))])
    assert tree.parents == shape
    assert duplicates(tree) == 0
    for node, parent in enumerate(tree.parents):
        exact = [float(p) for p in model.law([*tokens, *text_to(tree, parent)])]
        found = tree.law(node)
        assert isinstance(found, torch.Tensor)
        assert torch.allclose(found, torch.tensor(exact), atol=1e-6)
    [cut] = drafter.propose([ask(drafter, tokens, SAMPLED, budget=5, **reads_laws(tokens))])
    assert cut.parents == shape[:5]


def test_top_and_one_are_the_likeliest_and_one_drawn_from_the_rest() -> None:
    model = ToyTarget(VOCAB, seed=2, zeros=0.0)
    drafter = ModelTreeDrafter(TreeReader(model, VOCAB), width=3)
    drawn = set()
    for start in range(40):
        tokens = [1, 2, 3] * (1 + start)
        [tree] = drafter.propose(
            [ask(drafter, tokens, SAMPLED, budget=3, **reads_laws(tokens, Siblings.TOP_AND_ONE))]
        )
        law = model.law(tokens)
        best = sorted(range(VOCAB), key=lambda token: -law[token])
        assert [law[token] for token in tree.tokens[:2]] == [law[token] for token in best[:2]]
        assert tree.law(0) is None
        assert tree.law(1) is None
        rest = tree.law(2)
        assert isinstance(rest, torch.Tensor)
        assert float(rest.sum()) == pytest.approx(1.0)
        assert rest[list(tree.tokens[:2])].tolist() == [0.0, 0.0]
        drawn.add(tree.tokens[2])
    assert len(drawn) > 2


@pytest.mark.parametrize(
    ("drafter", "options", "rule"),
    [
        ("lm:anything", {"width": 2}, "recursive"),
        ("lm:anything", {"width": 2}, "optimal"),
        ("merged:suffix+lm:anything", {}, "traversal"),
    ],
)
def test_the_loop_keeps_its_promise_in_every_outcome(
    drafter: str, options: dict[str, Any], rule: str
) -> None:
    """By enumeration, two nodes a pass: siblings, and a child after its parent."""
    params = SamplingParams(temperature=1.0)
    checks = list(loop_checks(drafter, rule, None, params, options=options, worlds=1))
    assert [check.detail for check in checks if not check.passed] == []
    assert len(checks) == 2


@pytest.mark.parametrize("rule", ["recursive", "traversal", "optimal", "block"])
@pytest.mark.parametrize("drafter", ["lm, width 3", "lm, tree 3,2,1", "merged with lm"])
def test_the_law_of_three_tokens_is_the_target_s_under_every_rule_that_reads_laws(
    drafter: str, rule: str
) -> None:
    """Chi-square, for trees that are larger than can be enumerated."""
    target = ToyTarget(4, seed=3, order=1)
    runs, length, prompt = 900, 3, [1, 2, 1]
    made = make_drafter(drafter, target, share=Fraction(1, 2))
    seen: Counter[tuple[int, ...]] = Counter()
    for start in range(0, runs, 300):
        for seed in range(start, start + 300):
            params = SamplingParams(temperature=1.0, seed=seed, max_tokens=length, ignore_eos=True)
            [result] = run(toy_model(target), made, [prompt], params, rule=rule, budget=5)
            seen[result.token_ids] += 1
    assert follows(seen, text_law(target, prompt, length))


@pytest.mark.parametrize("rule", ["greedy", "coupled", "recursive", "traversal", "optimal"])
def test_a_draft_model_equal_to_the_target_keeps_a_whole_path_of_its_tree_each_pass(rule: str) -> None:
    """A branch lost from the draft model's cache would show as acceptance that decays."""
    target = ToyTarget(VOCAB, seed=1)
    drafter = DRAFTERS.load("lm").build(target, toy_model(target), {"tree": "2,1,1"})
    params = SamplingParams(
        temperature=0.0 if rule == "greedy" else 1.0, seed=3, max_tokens=60, ignore_eos=True
    )
    [result] = run(toy_model(target), drafter, [[0, 1, 2]], params, rule=rule, budget=6)
    # Four tokens a pass; the last four take two, since a draft has fewer nodes than tokens may follow.
    assert result.speculation.passes == 16


def test_more_draft_passes_are_made_only_while_they_pay() -> None:
    model = ToyTarget(VOCAB, seed=4)
    depths = []
    for cost in (0.0, 0.05, 2.0):
        drafter = ModelTreeDrafter(TreeReader(model, VOCAB), cost, width=2)
        [tree] = drafter.propose([ask(drafter, [1, 2, 3], GREEDY, budget=12)])
        depths.append(max(tree.depths()))
    assert depths[0] > depths[1] > depths[2] == 1


def test_where_the_text_repeats_itself_the_merged_drafter_makes_no_draft_passes() -> None:
    passes = []

    class Watched(ToyTarget):
        def forward(self, batch, caches):  # type: ignore[no-untyped-def]
            passes.append(len(batch))
            return super().forward(batch, caches)

    target = ToyTarget(VOCAB, seed=1)
    model = toy_model(Watched(VOCAB, seed=2))
    drafter: Any = DRAFTERS.load("merged").merge(target, model, ("suffix", "lm"), {})
    state = drafter.open([1, 2, 3, 4] * 12)
    for token in [1, 2, 3, 4] * 8:
        drafter.extend(state, [token], 0)
    asked = replace(ask(drafter, [1, 2, 3, 4] * 20, GREEDY), state=state, budget=5)
    costs = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5)
    [tree] = drafter.propose([replace(asked, costs=costs)])
    assert tree.tokens[:5] == (1, 2, 3, 4, 1)
    assert passes == []


@pytest.mark.parametrize("options", [{"width": 0}, {"width": 2, "tree": "2,1"}, {"tree": "x"}, {"wdith": 2}])
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    target = ToyTarget(VOCAB)
    with pytest.raises(OptionError, match=next(iter(options))):
        DRAFTERS.load("lm").build(target, toy_model(target), options)


def test_a_tree_ends_where_a_level_costs_more_than_it_brings() -> None:
    """A pass over several nodes once cost what one over a single node did."""
    model = ToyTarget(VOCAB, seed=5)
    levels = []
    for dear in (0.0, 1e6):
        drafter = ModelTreeDrafter(TreeReader(model, VOCAB), width=3)
        drafter.price(lambda nodes, dear=dear: dear if nodes > 1 else 0.0)  # type: ignore[misc]
        [tree] = drafter.propose([ask(drafter, [1, 3], GREEDY, budget=30)])
        levels.append(max(tree.depths()))
    assert levels[0] > levels[1] == 1
