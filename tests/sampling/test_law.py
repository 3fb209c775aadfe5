"""Logits to laws, against a slow reference and against the faults known from elsewhere."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from outrider.errors import NumericsError
from outrider.sampling.law import LogitLaws, law
from outrider.sampling.params import SamplingParams
from outrider.sampling.processing import processing_of


def reference(logits: list[float], params: SamplingParams) -> list[float]:
    """The documented order of filters, one token at a time, in float64."""
    peak = max(logits)
    weights = [math.exp((x - peak) / params.temperature) for x in logits]
    if 0 < params.top_k < len(logits):
        least = sorted(logits)[-params.top_k]
        weights = [w if x >= least else 0.0 for w, x in zip(weights, logits, strict=True)]
    if params.top_p < 1:
        wanted, mass, kept = params.top_p * sum(weights), 0.0, set()
        for token in sorted(range(len(weights)), key=lambda token: (-weights[token], token)):
            if mass >= wanted:
                break
            mass += weights[token]
            kept.add(token)
        weights = [w if token in kept else 0.0 for token, w in enumerate(weights)]
    weights = [w if w >= params.min_p * max(weights) else 0.0 for w in weights]
    if params.typical_p < 1:
        share = {token: w / sum(weights) for token, w in enumerate(weights) if w}
        entropy = -sum(p * math.log(p) for p in share.values())
        mass, kept = 0.0, set()
        for token in sorted(share, key=lambda token: abs(-math.log(share[token]) - entropy)):
            if mass >= params.typical_p:
                break
            mass += share[token]
            kept.add(token)
        weights = [w if token in kept else 0.0 for token, w in enumerate(weights)]
    return [w / sum(weights) for w in weights]


SETTINGS = [
    SamplingParams(temperature=0.7),
    SamplingParams(temperature=1.0, top_k=5),
    SamplingParams(temperature=1.0, top_p=0.83),
    SamplingParams(temperature=2.0, top_p=0.999),
    SamplingParams(temperature=1.3, min_p=0.07),
    SamplingParams(temperature=0.9, top_k=20, top_p=0.71, min_p=0.03),
    SamplingParams(temperature=1.0, top_k=1),
    SamplingParams(temperature=1.0, top_p=1e-6),
    SamplingParams(temperature=1.0, min_p=1.0),
    SamplingParams(temperature=1.0, typical_p=0.4),
    SamplingParams(temperature=1.5, top_p=0.9, min_p=0.02, typical_p=0.97),
]


@pytest.mark.parametrize("params", SETTINGS)
@pytest.mark.parametrize("spread", [0.01, 1.0, 5.0])
def test_the_law_follows_the_documented_order_of_filters(params: SamplingParams, spread: float) -> None:
    logits = spread * torch.randn(257, generator=torch.Generator().manual_seed(3))
    expected = torch.tensor(reference(logits.double().tolist(), params))
    found = law(logits, params)
    assert found.dtype == torch.float32
    assert torch.equal(found > 0, expected > 0)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-9)


@given(
    weights=st.lists(st.integers(0, 6), min_size=1, max_size=40).filter(any),
    top_p=st.sampled_from([0.1, 0.37, 0.5, 0.9, 0.99]),
)
def test_top_p_keeps_the_smallest_sufficient_set_also_among_ties(weights: list[int], top_p: float) -> None:
    logits = [math.log(w) if w else -math.inf for w in weights]
    found = law(torch.tensor(logits), SamplingParams(temperature=1.0, top_p=top_p))
    kept = (found > 0).nonzero().flatten().tolist()
    order = sorted(range(len(weights)), key=lambda token: (-weights[token], token))
    assert kept == sorted(order[: len(kept)])
    mass = sum(weights[token] for token in kept) / sum(weights)
    least = weights[order[len(kept) - 1]] / sum(weights)
    assert mass >= top_p - 1e-5
    assert mass - least < top_p + 1e-5


def test_top_p_takes_equal_tokens_in_order_of_id() -> None:
    found = law(torch.zeros(8), SamplingParams(temperature=1.0, top_p=0.375))
    assert found.tolist() == pytest.approx([1 / 3] * 3 + [0.0] * 5)


def test_top_k_keeps_all_tokens_that_tie_with_the_kth() -> None:
    found = law(torch.tensor([1.0, 3.0, 2.0, 2.0, 0.0]), SamplingParams(temperature=1.0, top_k=2))
    assert (found > 0).tolist() == [False, True, True, True, False]


def test_the_law_of_temperature_zero_is_a_point_mass_on_the_lowest_of_equal_ids() -> None:
    found = law(torch.tensor([1.0, 5.0, 5.0, -2.0]), SamplingParams(temperature=0.0))
    assert found.tolist() == [0.0, 1.0, 0.0, 0.0]


def test_a_very_small_temperature_is_not_temperature_zero() -> None:
    """Equal maxima share the mass at every temperature above 0, however small; nothing overflows."""
    logits = torch.tensor([1.0, 5.0, 5.0, -torch.inf])
    for temperature in (1e-5, 1e-40, 1e-300):
        assert law(logits, SamplingParams(temperature=temperature)).tolist() == [0.0, 0.5, 0.5, 0.0]


def test_a_very_high_temperature_keeps_excluded_tokens_out() -> None:
    logits = torch.tensor([1.0, 5.0, -torch.inf])
    for temperature in (1e20, 1e300):
        assert law(logits, SamplingParams(temperature=temperature)).tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("params", [*SETTINGS, SamplingParams()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_rows_law_does_not_depend_on_the_other_rows(params: SamplingParams, dtype: torch.dtype) -> None:
    """A row of a batch must not be touched by another, not by a single bit, wherever it stands in memory."""
    logits = (4 * torch.randn(5, 1003, generator=torch.Generator().manual_seed(1))).to(dtype)
    before = logits.clone()
    together = law(logits, params)
    for row in range(5):
        assert torch.equal(together[row], law(logits[row].clone(), params))
        assert torch.equal(together[row], law(logits[[row, 0]], params)[0])
    assert torch.equal(logits, before)
    assert law(logits[:0], params).shape == (0, 1003)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_that_is_not_numbers_is_an_error_once_it_is_asked_for(bad: float, temperature: float) -> None:
    params = SamplingParams(temperature=temperature)
    logits = torch.zeros(3, 50)
    logits[1, 40] = bad
    laws = LogitLaws(logits, params)
    assert laws.mode(0) == laws.mode(2) == 0
    assert float(laws[0].sum()) == pytest.approx(1)
    for ask in (laws.mode, laws.__getitem__):
        with pytest.raises(NumericsError, match="maximum"):
            ask(1)
    with pytest.raises(NumericsError):
        law(logits, params)


def test_a_row_that_excludes_every_token_is_an_error() -> None:
    with pytest.raises(NumericsError):
        law(torch.full((4,), -torch.inf), SamplingParams(temperature=1.0))


@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(temperature=0.8, top_p=0.9)])
def test_the_laws_of_a_tree_are_those_of_its_rows(params: SamplingParams) -> None:
    logits = torch.randn(4, 33, generator=torch.Generator().manual_seed(5))
    laws = LogitLaws(logits, params)
    assert len(laws) == 4
    for row in (2, 0, 3, 1):
        assert torch.equal(laws[row], law(logits[row], params))
        assert laws[row] is laws[row]
        assert laws.mode(row) == int(logits[row].argmax())
    with pytest.raises(IndexError):
        laws[4]
    with pytest.raises(IndexError):
        laws[-1]


def test_the_confidence_of_a_row_is_the_probability_of_its_most_likely_token() -> None:
    logits = 3 * torch.randn(3, 70, generator=torch.Generator().manual_seed(6))
    laws = LogitLaws(logits, SamplingParams())
    for row in range(3):
        assert laws.confidence(row) == pytest.approx(float(logits[row].softmax(-1).max()), rel=1e-5)


def mass_of(values: Tensor) -> float:
    return float(values.double().sum())


@pytest.mark.parametrize("params", SETTINGS)
def test_a_law_over_a_large_vocabulary_has_mass_one(params: SamplingParams) -> None:
    logits = 3 * torch.randn(49152, generator=torch.Generator().manual_seed(2))
    assert mass_of(law(logits, params)) == pytest.approx(1, abs=1e-6)


def test_likely_tokens_are_the_bare_logits_and_best_ones_follow_the_options() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0, 3.0, -9.0]])
    laws = LogitLaws(logits, SamplingParams())
    assert laws.likely(0, 3) == [(1, 0.0), (3, 0.0), (2, 2.0)]
    assert laws.likely(0, 9) == [(1, 0.0), (3, 0.0), (2, 2.0), (0, 3.0)], "far below the first is left out"
    whole = float(logits.exp().sum())
    assert [token for token, _ in laws.best(0, 2)] == [1, 3]
    assert [p for _, p in laws.best(0, 2)] == pytest.approx([math.exp(3) / whole] * 2)
    banned = SamplingParams(banned_tokens=(1,))
    barred = LogitLaws(logits, banned, processing_of(banned, [], 0), lambda row: ())
    assert barred.likely(0, 1) == [(1, 0.0)]
    assert [token for token, _ in barred.best(0, 2)] == [3, 2]


def test_a_row_with_nan_has_no_likely_tokens() -> None:
    laws = LogitLaws(torch.tensor([[0.0, float("nan")]]), SamplingParams())
    assert laws.likely(0, 2) == []
