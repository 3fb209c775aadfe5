"""What each rule keeps of a tree."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.loop.accept.arithmetic import entropy, probability
from outrider.loop.accept.base import Rule
from outrider.loop.accept.block import Block
from outrider.loop.accept.coupled import Coupled
from outrider.loop.accept.greedy import Greedy
from outrider.loop.accept.offers import offers
from outrider.loop.accept.recursive import Recursive
from outrider.loop.accept.rejection import Rejection
from outrider.loop.accept.traversal import Traversal
from outrider.registry import RULES
from outrider.sampling.keyed import KeyedSource, SharedDraws
from outrider.sampling.law import LogitLaws, law
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree, Law, Number, Scored, Verdict

BRANCHED = DraftTree(tokens=(1, 2, 0, 3, 2), parents=(-1, -1, 1, 1, 3))


class GivenDraws:
    """Draws that were written down beforehand: one number in [0, 1) for each node and each depth."""

    def __init__(self, nodes: Sequence[Fraction], depths: Sequence[Fraction]) -> None:
        self._nodes, self._depths = nodes, depths

    def accepts(self, probability: Number, node: int) -> bool:
        return self._nodes[node] < probability

    def token(self, law: Law, depth: int) -> int:
        weights = [Fraction(float(p)) for p in law]
        wanted = self._depths[depth] * sum(weights)
        for token, weight in enumerate(weights):
            if wanted < weight:
                return token
            wanted -= weight
        raise AssertionError("no token left")


class GivenLaws(list[Law]):
    """Laws as a plain list."""

    def probability(self, row: int, token: int) -> Number:
        return probability(self[row], token)

    def mode(self, row: int) -> int:
        values = [float(value) for value in self[row]]
        return values.index(max(values))

    def entropy(self, row: int) -> float:
        return entropy(self[row])


def rows_with_modes(*modes: int) -> LogitLaws:
    logits = torch.zeros(len(modes), 4)
    for row, mode in enumerate(modes):
        logits[row, mode] = 1.0
    return LogitLaws(logits, SamplingParams())


@pytest.mark.parametrize(
    ("modes", "verdict"),
    [
        ((3, 0, 0, 0, 0, 0), Verdict((), 3)),
        ((1, 2, 0, 0, 0, 0), Verdict((0,), 2)),
        ((2, 0, 3, 0, 2, 1), Verdict((1, 3, 4), 1)),
        ((2, 0, 0, 1, 0, 0), Verdict((1, 2), 1)),
    ],
)
def test_greedy_follows_the_most_likely_tokens_through_the_tree(
    modes: tuple[int, ...], verdict: Verdict
) -> None:
    draws = GivenDraws([], [])
    assert Greedy().decide(Scored(BRANCHED, rows_with_modes(*modes)), draws) == verdict
    # At temperature 0 the coupled rule needs no noise and keeps the same.
    assert Coupled().decide(Scored(BRANCHED, rows_with_modes(*modes)), SharedDraws(0, 0, 0)) == verdict


def test_of_two_equal_siblings_the_first_is_followed() -> None:
    twins = DraftTree(tokens=(1, 1, 2), parents=(-1, -1, 0))
    verdict = Greedy().decide(Scored(twins, rows_with_modes(1, 2, 0, 3)), GivenDraws([], []))
    assert verdict == Verdict((0, 2), 3)


@pytest.mark.parametrize("name", RULES)
def test_an_empty_draft_is_plain_decoding(name: str) -> None:
    rule: Rule = RULES.load(name)()
    verdict = rule.decide(Scored(DraftTree(), rows_with_modes(2)), KeyedSource(0, 0).for_rule(rule, 5))
    assert verdict == Verdict((), 2)


def test_rejection_at_temperature_zero_keeps_what_greedy_keeps() -> None:
    for tokens in ((1, 2, 3), (1, 2, 0), (0, 2, 3)):
        scored = Scored(DraftTree.chain(tokens), rows_with_modes(1, 2, 3, 0))
        draws = KeyedSource(0, 0).for_rule(Rejection(), 5)
        assert Rejection().decide(scored, draws) == Greedy().decide(scored, draws)


def test_a_guess_of_probability_zero_never_passes_even_at_the_lowest_draw() -> None:
    zero, half = Fraction(0), Fraction(1, 2)
    p = [zero, half, half]
    for laws in (None, [[half, half, zero]]):
        scored = Scored(DraftTree.chain([0], laws), GivenLaws([p, p]))
        assert Rejection().decide(scored, GivenDraws([zero], [zero])).path == ()


def dyadic_law(chance: random.Random, size: int) -> list[Fraction]:
    weights = [0] * size
    for _ in range(16):
        weights[chance.randrange(size)] += 1
    return [Fraction(weight, 16) for weight in weights]


@pytest.mark.parametrize("seed", range(60))
def test_tensors_and_rationals_decide_alike_given_the_same_draws(seed: int) -> None:
    chance = random.Random(seed)
    size, length = chance.randint(2, 5), chance.randint(0, 4)
    p = [dyadic_law(chance, size) for _ in range(length + 1)]
    q = [dyadic_law(chance, size) for _ in range(length)]
    tokens = [chance.randrange(size) for _ in range(length)]
    given = [[Fraction(chance.randrange(64), 64) for _ in range(length + 1)] for _ in range(2)]
    for laws in (q, None):
        for rule in (Rejection(), Coupled(), Greedy()):
            as_tensors = None if laws is None else [torch.tensor([float(x) for x in row]) for row in laws]
            rows = GivenLaws([torch.tensor([float(x) for x in row]) for row in p])
            exact = rule.decide(Scored(DraftTree.chain(tokens, laws), GivenLaws(p)), GivenDraws(*given))
            found = rule.decide(Scored(DraftTree.chain(tokens, as_tensors), rows), GivenDraws(*given))
            assert found == exact


def random_tree(chance: random.Random, size: int, *, chain: bool) -> tuple[DraftTree, list[list[Fraction]]]:
    """A tree with guessed and drawn siblings whose laws float32 holds exactly, and the target's laws."""
    count = chance.randint(0, 7)
    parents = [node - 1 if chain else chance.randint(-1, node - 1) for node in range(count)]
    tokens, laws, of_parent = [0] * count, [None] * count, {}
    for node, parent in enumerate(parents):
        if parent not in of_parent and chance.random() < 0.3:
            tokens[node] = chance.randrange(size)
            continue
        law = of_parent.setdefault(parent, dyadic_law(chance, size))
        taken = [tokens[other] for other in range(node) if parents[other] == parent and laws[other]]
        left = [token for token in range(size) if law[token] and token not in taken]
        if left:
            tokens[node], laws[node] = chance.choice(left), law
        else:
            return random_tree(chance, size, chain=chain)
    targets = [dyadic_law(chance, size) for _ in range(count + 1)]
    return DraftTree(tuple(tokens), tuple(parents), tuple(laws), chance.random() < 0.3), targets


def tensors(law: Sequence[Fraction]) -> torch.Tensor:
    return torch.tensor([float(p) for p in law])


def decided(rule: Rule, tree: DraftTree, p: Sequence[Law], chance: random.Random) -> tuple[Verdict, Verdict]:
    """What a rule decides on rationals and on tensors, with numbers that lie near no probability."""
    given = [[Fraction(2 * chance.randrange(5003) + 1, 10007) for _ in range(9)] for _ in range(2)]
    kept: dict[int, torch.Tensor] = {}
    as_tensors = [law and kept.setdefault(id(law), tensors(law)) for law in tree.laws or [None] * len(tree)]
    floats = replace(tree, laws=tuple(as_tensors))
    exact = rule.decide(Scored(tree, GivenLaws(p)), GivenDraws(*given))
    return exact, rule.decide(Scored(floats, GivenLaws([tensors(law) for law in p])), GivenDraws(*given))


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(2, 6))
def test_tensors_and_rationals_decide_alike_on_trees(name: str, seed: int, size: int) -> None:
    chance, rule = random.Random(seed), RULES.load(name)()
    tree, p = random_tree(chance, size, chain=not rule.serves_trees)
    exact, found = decided(rule, tree, p, chance)
    assert found == exact


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(2, 6))
def test_on_chains_the_rules_for_trees_are_the_rules_for_chains(seed: int, size: int) -> None:
    chance = random.Random(seed)
    tree, p = random_tree(chance, size, chain=True)
    for on_trees, on_chains in ((Recursive(), Rejection()), (Traversal(), Block())):
        state = chance.getstate()
        found = decided(on_trees, tree, p, chance)
        chance.setstate(state)
        assert found == decided(on_chains, tree, p, chance)


def test_of_a_peaked_law_the_second_sibling_keeps_its_probability() -> None:
    """1 - q(x) in float32 would be off by a hundredth here, and with it the law of what is emitted."""
    q = torch.tensor([1 - 2.0**-17, 2.0**-18, 2.0**-18]) * (1 + 2.0**-20)
    tree = DraftTree((0, 1), (-1, -1), (q, q))
    first, second = offers(tree, [0, 1])
    assert first.probability() == pytest.approx(1, abs=1e-5)
    assert second.probability() == pytest.approx(0.5, rel=1e-6)


def test_a_sibling_never_has_more_than_all_that_is_left() -> None:
    q = torch.tensor([1.0, 1e-30, 0.0])
    first, second = offers(DraftTree((0, 1), (-1, -1), (q, q)), [0, 1])
    assert 0 < second.probability() <= 1
    assert first.probability() == 1


def test_laws_are_left_as_they_were_by_every_rule() -> None:
    chance = random.Random(2)
    for name in RULES:
        rule = RULES.load(name)()
        for _ in range(30):
            tree, exact = random_tree(chance, 4, chain=not rule.serves_trees)
            kept = {id(law): tensors(law) for law in tree.laws or () if law}
            copy = replace(tree, laws=tuple(law and kept[id(law)] for law in tree.laws or ()))
            p = [tensors(law) for law in exact]
            before = [law.clone() for law in (*p, *kept.values())]
            rule.decide(Scored(copy, GivenLaws(p)), KeyedSource(chance.randrange(99), 0).for_rule(rule, 0))
            assert all(map(torch.equal, before, (*p, *kept.values())))


def test_the_coupled_text_is_the_plain_text_whatever_is_drafted() -> None:
    """Same seed, same text: under good and bad drafters, stray siblings and budgets that change."""
    chance = random.Random(4)
    params = SamplingParams(temperature=0.9, top_p=0.95)
    rows = {n: torch.randn(12, generator=torch.Generator().manual_seed(n)) for n in range(64)}

    def logits(text: tuple[int, ...]) -> torch.Tensor:
        return rows[(7 * len(text) + 3 * text[-1]) % 64]

    plain: tuple[int, ...] = (0,)
    while len(plain) < 60:
        plain += (SharedDraws(5, 2, len(plain)).token(law(logits(plain), params), 0),)

    kept = 0
    for blur in (0.0, 0.3, 3.0):
        text: tuple[int, ...] = (0,)
        while len(text) < 60:
            tree = DraftTree()
            path = text
            draws = KeyedSource(5, 2).for_draft(Coupled(), len(text))
            for depth in range(chance.randrange(5)):
                noise = blur * torch.randn(12, generator=torch.Generator().manual_seed(depth))
                guess = draws.token(law(logits(path) + noise, params), depth)
                stray = chance.randrange(12)
                parent = len(tree) - 2 if depth else -1
                tree = DraftTree((*tree.tokens, guess, stray), (*tree.parents, parent, parent))
                path += (guess,)
            texts = [text]
            for token, parent in zip(tree.tokens, tree.parents, strict=True):
                texts.append((*texts[parent + 1], token))
            laws = LogitLaws(torch.stack([logits(t) for t in texts]), params)
            verdict = Coupled().decide(Scored(tree, laws), KeyedSource(5, 2).for_rule(Coupled(), len(text)))
            kept += len(verdict.path)
            text += (*(tree.tokens[node] for node in verdict.path), verdict.token)
        assert text[:60] == plain
    assert kept > 60
