"""One token from one uniform number: the right law, and never a token of probability zero."""

from __future__ import annotations

import bisect
import itertools
import random
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.sampling.pick import BLOCK, pick

LARGEST = 1 - 2.0**-53


def slow(running: list[int], u: Fraction) -> int:
    """The inverse of the distribution function, whose values are given: the first token past u · the last."""
    return bisect.bisect_right(running, u * running[-1])


@pytest.mark.parametrize("size", [1, 2, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 5])
def test_the_token_is_that_of_the_inverse_distribution_function(size: int) -> None:
    chance = random.Random(size)
    for _ in range(20):
        weights = [chance.choice((0, 0, 0, 1, 2, 5)) for _ in range(size)]
        weights[chance.randrange(size)] += 1
        running = list(itertools.accumulate(weights))
        law = torch.tensor([weight / 64 for weight in weights])
        for u in [0.0, LARGEST, *(chance.random() for _ in range(20))]:
            assert pick(law, u) == pick(law.double(), u) == slow(running, Fraction(u))


def test_an_even_grid_of_numbers_gives_every_token_its_share() -> None:
    law = [Fraction(p, 16) for p in (3, 0, 5, 0, 1, 7)]
    found = [pick(law, number / 16) for number in range(16)]
    assert [Fraction(found.count(token), 16) for token in range(6)] == law


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), u=st.floats(0, LARGEST), size=st.integers(1, 3 * BLOCK))
def test_a_token_of_probability_zero_is_never_picked(seed: int, u: float, size: int) -> None:
    """Also where weights differ by thirty orders of magnitude, so that sums are rounded hard."""
    generator = torch.Generator().manual_seed(seed)
    law = 10 ** (-30 * torch.rand(size, generator=generator))
    law[torch.rand(size, generator=generator) < 0.7] = 0
    law[seed % size] = 1e-20
    for number in (u, 0.0, LARGEST):
        assert law[pick(law, number)] > 0
        assert pick(law * 0.25, number) == pick(law, number)


def test_mass_at_the_ends_of_blocks_is_found() -> None:
    law = torch.zeros(3 * BLOCK + 2)
    ends = [0, BLOCK - 1, BLOCK, 2 * BLOCK - 1, 3 * BLOCK - 1, 3 * BLOCK + 1]
    law[ends] = 1.0
    assert [pick(law, (i + 0.5) / len(ends)) for i in range(len(ends))] == ends
    assert [pick(law, i / len(ends)) for i in range(len(ends))][:1] == [0]
