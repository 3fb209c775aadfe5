"""Keyed draws: the right law, and no randomness shared by things that must not share it."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import pytest
import torch
from scipy import stats

from frequencies import follows
from outrider.sampling import keyed
from outrider.sampling.keyed import KeyedSource, SharedDraws, StepDraws, arrivals, race
from outrider.sampling.noise import Purpose

SIGNIFICANCE = 1e-4
LAW = torch.tensor([0.4, 0.0, 0.25, 0.2, 0.1, 0.05])
SHARING, OWN = SimpleNamespace(shares_noise=True), SimpleNamespace(shares_noise=False)


def fits(tokens: list[int], law: torch.Tensor) -> bool:
    return follows(Counter(tokens), dict(enumerate(law.tolist())))


def test_shared_draws_follow_the_law() -> None:
    assert fits([SharedDraws(7, 0, base).token(LAW, 0) for base in range(10_000)], LAW)


@pytest.mark.parametrize("purpose", [Purpose.DRAFT, Purpose.RESIDUAL])
def test_step_draws_follow_a_law_that_is_not_normalised(purpose: Purpose) -> None:
    assert fits([StepDraws(7, 0, base, purpose).token(3 * LAW, 2) for base in range(5000)], LAW)


def test_successive_positions_are_independent() -> None:
    draws = [SharedDraws(seed, 0, 10) for seed in range(4000)]
    p = torch.tensor([0.5, 0.3, 0.2])
    joint = [3 * draw.token(p, 0) + draw.token(p, 1) for draw in draws]
    assert fits(joint, torch.outer(p, p).flatten())


def test_a_shared_token_depends_on_the_absolute_position_only() -> None:
    laws = [torch.rand(50, generator=torch.Generator().manual_seed(i)) for i in range(20)]
    alone = [SharedDraws(3, 1, 100 + i).token(law, 0) for i, law in enumerate(laws)]
    assert [SharedDraws(3, 1, 100).token(law, i) for i, law in enumerate(laws)] == alone
    assert [SharedDraws(3, 2, 100).token(law, i) for i, law in enumerate(laws)] != alone
    assert [SharedDraws(4, 1, 100).token(law, i) for i, law in enumerate(laws)] != alone


def test_the_winner_of_a_race_survives_scaling_and_what_cannot_win() -> None:
    """Sparse and dense laws take different ways through the race; they must draw the same token."""
    law = torch.rand(40, generator=torch.Generator().manual_seed(0))
    wide = torch.cat([law, torch.zeros(400)])
    for name in range(200):
        token = race(law, name)
        assert race(wide, name) == token
        assert race(law * 1024, name) == token
        assert race(law.double(), name) == token
        assert race([Fraction(float(p)) for p in law], name) == token


def test_a_point_mass_gives_its_token_whatever_the_noise() -> None:
    for position in range(100):
        assert SharedDraws(0, 0, position).token(torch.tensor([0.0, 0.0, 1.0]), 5) == 2
        assert SharedDraws(0, 0, position).tokens(torch.tensor([0.0, 0.0, 1.0]), 2, 0, -1) == [2]


def test_a_probability_of_zero_never_passes_and_of_one_always(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = [StepDraws(1, 0, 0, Purpose.RESIDUAL), SharedDraws(1, 0, 0)]
    for number in (0.0, 1 - 2.0**-53):
        monkeypatch.setattr(keyed, "uniform", lambda _, number=number: number)
        for draw in draws:
            assert not draw.accepts(0.0, 0)
            assert not draw.accepts(Fraction(0), 0)
            assert draw.accepts(1.0, 0)


def test_guesses_pass_with_the_given_probability() -> None:
    passed = sum(StepDraws(2, 0, base, Purpose.RESIDUAL).accepts(0.3, 1) for base in range(10_000))
    assert stats.binomtest(passed, 10_000, 0.3).pvalue > SIGNIFICANCE


def independent(first: list[int], second: list[int], size: int = 4) -> bool:
    table = torch.zeros(size, size)
    for a, b in zip(first, second, strict=True):
        table[a, b] += 1
    table = table[table.sum(1) > 0]
    return bool(stats.chi2_contingency(table.numpy()).pvalue > SIGNIFICANCE)


@pytest.mark.parametrize("kind", ["purpose", "step", "depth", "request"])
def test_no_two_steps_purposes_depths_or_requests_share_a_draw(kind: str) -> None:
    """Tokens drafted in an earlier step for the same position must tell nothing about this step's tokens."""
    p = torch.full((4,), 0.25)
    first = [KeyedSource(seed, 0).for_draft(OWN, 20).token(p, 1) for seed in range(3000)]
    others = {
        "purpose": lambda seed: KeyedSource(seed, 0).for_rule(OWN, 20).token(p, 1),
        "step": lambda seed: KeyedSource(seed, 0).for_draft(OWN, 21).token(p, 0),
        "depth": lambda seed: KeyedSource(seed, 0).for_draft(OWN, 20).token(p, 2),
        "request": lambda seed: KeyedSource(seed, 1).for_draft(OWN, 20).token(p, 1),
    }
    assert independent(first, [others[kind](seed) for seed in range(3000)])
    assert not independent(first, first)


def test_acceptance_tells_nothing_about_the_tokens_of_the_same_step() -> None:
    p = torch.full((4,), 0.25)
    accepted = [int(KeyedSource(seed, 0).for_rule(OWN, 9).accepts(0.5, 0)) for seed in range(3000)]
    for draws in (KeyedSource.for_rule, KeyedSource.for_draft):
        assert independent(
            accepted, [draws(KeyedSource(seed, 0), OWN, 9).token(p, 0) for seed in range(3000)]
        )


def test_a_rule_that_shares_noise_and_its_drafter_draw_the_same_token_from_the_same_law() -> None:
    for seed, depth in itertools.product(range(20), range(3)):
        drafted = KeyedSource(seed, 0).for_draft(SHARING, 5).token(LAW, depth)
        assert drafted == KeyedSource(seed, 0).for_rule(SHARING, 5).token(LAW, depth)
        assert drafted == KeyedSource(seed, 0).for_rule(SHARING, 5 + depth).token(LAW, 0)


@pytest.mark.parametrize("kind", [SHARING, OWN], ids=["shared", "own"])
def test_siblings_follow_the_law_of_draws_without_replacement(kind: SimpleNamespace) -> None:
    p = torch.tensor([0.5, 0.3, 0.2, 0.0])
    pairs = [KeyedSource(seed, 0).for_draft(kind, 3).tokens(p, 2, 1, 0) for seed in range(6000)]
    joint = torch.zeros(4, 4)
    for first, second in itertools.permutations(range(3), 2):
        joint[first, second] = p[first] * p[second] / (1 - p[first])
    assert fits([4 * first + second for first, second in pairs], joint.flatten())


def test_the_first_sibling_of_shared_noise_is_the_token_of_the_position_at_any_node() -> None:
    for seed in range(50):
        draws = KeyedSource(seed, 0).for_draft(SHARING, 9)
        siblings = draws.tokens(LAW, 3, 2, 0)
        assert siblings[0] == KeyedSource(seed, 0).for_rule(SHARING, 11).token(LAW, 0)
        assert siblings == draws.tokens(LAW, 3, 2, 5) == draws.tokens(LAW, 4, 2, 0)[:3]


def test_nodes_at_one_depth_share_no_draw_where_noise_is_not_shared() -> None:
    p = torch.full((4,), 0.25)
    first = [KeyedSource(seed, 0).for_draft(OWN, 20).tokens(p, 1, 1, 0)[0] for seed in range(3000)]
    others = [KeyedSource(seed, 0).for_draft(OWN, 20).tokens(p, 1, 1, 1)[0] for seed in range(3000)]
    alone = [KeyedSource(seed, 0).for_draft(OWN, 20).token(p, 1) for seed in range(3000)]
    assert independent(first, others)
    assert independent(first, alone)


def test_siblings_are_different_possible_tokens_in_order_of_arrival() -> None:
    """Sparse, dense and scaled laws give the same; a law with fewer tokens than asked for gives all."""
    law = torch.rand(40, generator=torch.Generator().manual_seed(1))
    law[law < 0.3] = 0
    possible = int(law.count_nonzero())
    wide = torch.cat([law, torch.zeros(400)])
    for name in range(100):
        every = arrivals(law, name, 99)
        assert sorted(every) == law.nonzero().flatten().tolist()
        assert len(every) == possible
        for count in (1, 2, 5):
            assert arrivals(wide, name, count) == arrivals(law * 512, name, count) == every[:count]
        left = law.clone()
        for token in every:
            assert race(left, name) == token
            left[token] = 0
    assert arrivals(torch.tensor([0.0, 0.0, 2.0]), 0, 3) == [2]


def test_target_and_drafter_agree_as_often_as_the_coupling_theory_says() -> None:
    """P(same) = sum over x of 1 / sum over y of max(p_y / p_x, q_y / q_x), exactly, for exponential races."""
    p, q = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.2, 0.6])
    share = sum(float(1 / torch.maximum(p / p[x], q / q[x]).sum()) for x in range(3))
    same = sum(SharedDraws(s, 0, 0).token(p, 0) == SharedDraws(s, 0, 0).token(q, 0) for s in range(5000))
    assert stats.binomtest(same, 5000, share).pvalue > SIGNIFICANCE
    distance = float((p - q).abs().sum() / 2)
    assert share >= (1 - distance) / (1 + distance)
