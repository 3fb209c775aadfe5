"""The sampler's work on one row is right, with and without C++ (`tests/native` holds the two together)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch

from outrider.errors import NumericsError
from outrider.sampling import rows
from outrider.sampling.law import LogitLaws, law
from outrider.sampling.noise import exponentials
from outrider.sampling.params import SamplingParams


def logits_of(size: int, seed: int = 0) -> torch.Tensor:
    row = 6 * torch.randn(size, generator=torch.Generator().manual_seed(seed))
    if size > 20:
        row[3], row[7], row[11] = -torch.inf, -200.0, row[12]
    return row


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing but the reference."""
    with monkeypatch.context() as patch:
        patch.setattr(rows, "core", lambda: None)
        yield


def test_powers_of_two_are_right_to_two_units_in_the_last_place(reference: None) -> None:
    x = -torch.cat([torch.linspace(0, 125, 300_001), torch.rand(100_000)])
    exact = x.double().exp2()
    found = rows.power_of_two(x.clone()).double()
    assert float(((found - exact).abs() / exact).max()) < 2 * 2.0**-23
    assert float(found.max()) == 1
    assert rows.power_of_two(torch.tensor([0.0, -125.1, -1e30, -torch.inf])).tolist() == [1, 0, 0, 0]
    assert math.isnan(rows.power_of_two(torch.tensor([math.nan])).item())


@pytest.mark.parametrize("size", [1, 7, 4096, 300_000])
def test_sums_are_right_and_of_laws_exact_whatever_their_order(size: int, reference: None) -> None:
    chance = torch.Generator().manual_seed(size)
    row = 3 * torch.randn(size, generator=chance)
    top, total = rows.weigh(row, 1.0)
    assert top == float(row.max())
    order = torch.randperm(size, generator=chance)
    whole = float((row.double() - top).exp().sum())
    assert total == pytest.approx(whole, rel=5e-7)
    p = rows.softmax(row, top, 1.0, total)
    assert rows.share(row, size // 2, top, 1.0, total) == float(p[size // 2])
    q = p[order]
    assert rows.excess(p, q, 0.9, []) == rows.excess(p[order], q[order], 0.9, [])
    assert rows.excess(p, q, 0.9, []) == pytest.approx(float((0.9 * p - q).clamp_min(0).double().sum()))
    assert rows.mass(p) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("built", [True, False])
def test_near_the_largest_are_all_values_within_reach_in_order(
    built: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not built:
        monkeypatch.setattr(rows, "core", lambda: None)
    row = torch.tensor([1.0, 5.0, -torch.inf, 5.0, 4.5, 3.0])
    assert rows.near(row, 2.0) == ([1, 3, 4], [0.0, 0.0, 0.5])
    flat = torch.zeros(3000)
    flat[700] = -1.0
    assert rows.near(flat, 1.0)[0] == [token for token in range(3000) if token != 700]
    flat[1234] = torch.nan
    assert rows.near(flat, 1.0) == ([], [])


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("spread", [0.0, 2.5, 40.0])
def test_the_entropy_of_logits_is_that_of_their_law(
    built: bool, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not built:
        monkeypatch.setattr(rows, "core", lambda: None)
    row = spread * torch.randn(3001, generator=torch.Generator().manual_seed(1))
    row[5:40:7] = -torch.inf
    for temperature in (0.7, 1.0):
        laws = LogitLaws(row[None], SamplingParams(temperature=temperature))
        p = (row.double() / temperature).softmax(0)
        expected = float(torch.special.entr(p).sum())
        assert laws.entropy(0) == pytest.approx(expected, abs=1e-6)
        assert rows.entropy_of(laws[0]) == pytest.approx(expected, abs=1e-6)
    filtered = LogitLaws(row[None], SamplingParams(temperature=1.0, top_k=9))
    assert filtered.entropy(0) == pytest.approx(float(torch.special.entr(filtered[0]).sum()), abs=1e-6)
    assert LogitLaws(row[None], SamplingParams()).entropy(0) == 0


@pytest.mark.parametrize("built", [True, False])
def test_the_race_is_won_by_the_least_time_of_all(built: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tokens are passed over without a logarithm; the winners must be those of working all times out."""
    if not built:
        monkeypatch.setattr(rows, "core", lambda: None)
    for seed, spread in enumerate((0.0, 0.5, 3.0, 30.0)):
        p = (spread * torch.randn(3000, generator=torch.Generator().manual_seed(seed))).softmax(0)
        p[::7] = 0
        for key in range(15):
            times = exponentials(key, len(p)).div_(p)
            order = [token for token in times.sort(stable=True).indices.tolist() if p[token] > 0]
            for count in (1, 3, 8):
                assert rows.race(p, key, count) == order[:count]
    few = torch.zeros(500)
    few[[3, 400]] = 1e-30
    assert sorted(rows.race(few, 1, 9)) == [3, 400]
    assert rows.race(few * 0, 1, 1) == []


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.8),
        SamplingParams(temperature=1.0, top_p=0.9),
        SamplingParams(temperature=1.0, top_k=5, banned_tokens=(3,)),
        SamplingParams(),
    ],
)
def test_one_tokens_probability_is_that_of_the_law_to_the_bit(
    built: bool, params: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not built:
        monkeypatch.setattr(rows, "core", lambda: None)
    logits = torch.stack([logits_of(1003, seed) for seed in range(3)])
    whole = law(logits, params)
    for row in range(3):
        laws = LogitLaws(logits, params)
        alone = [laws.probability(row, token) for token in range(0, 1003, 17)]
        assert alone == whole[row, ::17].tolist()
        assert torch.equal(laws[row], whole[row])
    with pytest.raises(IndexError):
        laws.probability(3, 0)


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_damaged_row_is_an_error_before_any_number_of_it(
    built: bool, bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not built:
        monkeypatch.setattr(rows, "core", lambda: None)
    for place in (0, 5, 40, 63, 64):
        logits = torch.zeros(1, 65)
        logits[0, place] = bad
        with pytest.raises(NumericsError, match="maximum"):
            LogitLaws(logits, SamplingParams(temperature=1.0)).probability(0, 1)
