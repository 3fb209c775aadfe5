"""Counter-based noise: pure, uniform, and independent across everything it is keyed by."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from scipy import stats

from outrider.sampling.noise import Purpose, exponentials, exponentials_of, key, mix, uniform

SIGNIFICANCE = 1e-4  # the seeds are fixed, so a test that passes keeps passing


def test_the_mixer_gives_the_published_splitmix64_stream() -> None:
    gamma = 0x9E3779B97F4A7C15
    stream = [mix((1234567 + (i + 1) * gamma) % 2**64) for i in range(3)]
    assert stream == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_noise_is_that_stream_whichever_tokens_are_asked_for() -> None:
    gamma, name = 0x9E3779B97F4A7C15, key(5, 0, 17, Purpose.TOKEN)
    everything = exponentials(name, 1000)
    some = torch.tensor([999, 0, 413])
    assert torch.equal(exponentials(name, some), everything[some])
    assert torch.equal(exponentials_of(name, some.tolist()), everything[some])
    assert some.tolist() == [999, 0, 413]
    for token in (0, 413, 999):
        bits = mix((name + (token + 1) * gamma) % 2**64)
        assert float(everything[token]) == pytest.approx(-math.log(((bits >> 11) | 1) / 2**53), rel=1e-13)


def test_keys_differ_wherever_one_part_differs_or_parts_are_swapped() -> None:
    parts = list(itertools.product((0, 1, -1, 2**63), (0, 1), (0, 1, 2), Purpose, (0, 1)))
    names = {key(seed, request, position, purpose, node) for seed, request, position, purpose, node in parts}
    names |= {key(seed, request, position, purpose) for seed, request, position, purpose, node in parts}
    assert len(names) == len(parts) + len(parts) // 2
    assert key(1, 2, 3, Purpose.TOKEN) != key(2, 1, 3, Purpose.TOKEN) != key(1, 3, 2, Purpose.TOKEN)
    assert key(-1, 0, 0, Purpose.TOKEN) == key(2**64 - 1, 0, 0, Purpose.TOKEN)


def test_uniform_numbers_are_uniform_and_fill_a_grid_of_53_bits() -> None:
    """Coarse grids give tokens of small probability too much or none; the lowest bits must be in use."""
    numbers = [uniform(key(3, 0, position, Purpose.ACCEPT, 0)) for position in range(20_000)]
    assert all(0 <= number < 1 for number in numbers)
    assert stats.kstest(numbers, "uniform").pvalue > SIGNIFICANCE
    low = [int(number * 2**53) % 16 for number in numbers]
    assert stats.chisquare([low.count(digit) for digit in range(16)]).pvalue > SIGNIFICANCE


def test_exponential_noise_is_standard_exponential_positive_and_finite() -> None:
    noise = exponentials(key(11, 0, 0, Purpose.TOKEN), 50_000)
    assert noise.dtype == torch.float64
    assert bool((noise > 0).all())
    assert bool(noise.isfinite().all())
    assert stats.kstest(noise.numpy(), "expon").pvalue > SIGNIFICANCE


LARGEST = 0xCF9A04AFFA6BADC0


def test_the_rarest_draws_are_positive_and_finite_too() -> None:
    """The mixer maps 0 to 0: a key just before 0 in the stream gives the smallest u there is, 2^-53."""
    assert mix(0) == 0
    assert exponentials(-0x9E3779B97F4A7C15 % 2**64, 1).tolist() == pytest.approx([53 * math.log(2)])
    assert mix(LARGEST) == 2**64 - 1  # and this is where the largest u comes from, 1 - 2^-53
    assert exponentials((LARGEST - 0x9E3779B97F4A7C15) % 2**64, 1).tolist() == [-math.log1p(-(2.0**-53))]


def pairs(kind: str) -> tuple[list[float], list[float]]:
    """Numbers of neighbours: two draws that differ in one part of their key only."""
    first, second = [], []
    for position in range(8000):
        a = key(1, 0, position, Purpose.TOKEN)
        b = {
            "seed": key(2, 0, position, Purpose.TOKEN),
            "request": key(1, 1, position, Purpose.TOKEN),
            "position": key(1, 0, position + 1, Purpose.TOKEN),
            "draft": key(1, 0, position, Purpose.DRAFT),
            "residual": key(1, 0, position, Purpose.RESIDUAL),
            "accept": key(1, 0, position, Purpose.ACCEPT),
            "node": key(1, 0, position, Purpose.TOKEN, 0),
        }[kind]
        first.append(uniform(a))
        second.append(uniform(b))
    return first, second


@pytest.mark.parametrize("kind", ["seed", "request", "position", "draft", "residual", "accept", "node"])
def test_draws_that_differ_in_one_part_of_their_key_are_independent(kind: str) -> None:
    """One request's seed, another position or another purpose must not echo in a draw."""
    first, second = pairs(kind)
    table = torch.zeros(8, 8)
    for a, b in zip(first, second, strict=True):
        table[int(8 * a), int(8 * b)] += 1
    assert stats.chisquare(table.flatten().numpy()).pvalue > SIGNIFICANCE


def test_the_noise_of_neighbouring_tokens_and_positions_is_independent() -> None:
    noise = torch.stack([exponentials(key(9, 0, position, Purpose.TOKEN), 64) for position in range(600)])
    quartile = (torch.exp(-noise) * 4).long().clamp(max=3)
    for a, b in ((quartile[:, 1:], quartile[:, :-1]), (quartile[1:], quartile[:-1])):
        counts = torch.bincount((4 * a + b).flatten(), minlength=16)
        assert stats.chisquare(counts.numpy()).pvalue > SIGNIFICANCE
