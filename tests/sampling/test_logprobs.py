"""Logprobs of tokens and of the most likely ones beside them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.sampling.law import law
from outrider.sampling.logprobs import of_law, of_logits
from outrider.sampling.params import SamplingParams


@given(
    row=st.lists(st.sampled_from([-math.inf, -3.0, 0.0, 0.5, 2.0, 9.0]), min_size=1, max_size=30),
    top=st.integers(0, 20),
)
@settings(deadline=None)
def test_the_alternatives_are_the_most_likely_tokens_lowest_id_first_among_equals(
    row: list[float], top: int
) -> None:
    if max(row) == -math.inf:
        row[0] = 0.0
    total = math.log(math.fsum(math.exp(x) for x in row))
    order = sorted((t for t in range(len(row)) if row[t] > -math.inf), key=lambda t: (-row[t], t))[:top]
    for token in range(len(row)):
        found = of_logits(torch.tensor(row), token, top)
        assert found.token == token
        assert found.logprob == pytest.approx(row[token] - total, abs=1e-5)
        assert [index for index, _ in found.top] == order
        assert [value for _, value in found.top] == pytest.approx([row[t] - total for t in order], abs=1e-5)
        if token in order:
            assert dict(found.top)[token] == found.logprob


def test_those_of_a_large_vocabulary_are_log_softmax() -> None:
    row = 4 * torch.randn(49152, generator=torch.Generator().manual_seed(1))
    expected = row.double().log_softmax(-1)
    values, ids = expected.topk(20)
    found = of_logits(row, 17, 20)
    assert found.logprob == pytest.approx(expected[17].item(), abs=1e-5)
    assert [index for index, _ in found.top] == ids.tolist()
    assert [value for _, value in found.top] == pytest.approx(values.tolist(), abs=1e-5)


@pytest.mark.parametrize("shift", [0.0, 1e4, -1e4])
def test_large_logits_do_not_overflow(shift: float) -> None:
    found = of_logits(torch.tensor([1.0, 3.0]) + shift, 0, 2)
    assert found.logprob == pytest.approx(-2 - math.log1p(math.exp(-2)), abs=1e-3)


def test_tokens_that_filters_took_out_are_no_alternatives() -> None:
    p = law(torch.tensor([1.0, 3.0, 2.0, 0.0]), SamplingParams(temperature=1.0, top_k=2))
    found = of_law(p, 0, 4)
    assert found.logprob == -math.inf
    assert [index for index, _ in found.top] == [1, 2]
    assert math.fsum(math.exp(value) for _, value in found.top) == pytest.approx(1)
    assert of_law(p, 1, 0).top == ()
    assert of_law(p, 1, 0).logprob == pytest.approx(math.log(float(p[1])))
