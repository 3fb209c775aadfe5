"""Weight kernels: each close to the exact product, each with rows that don't depend on their neighbours."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.models.linear import (
    KERNELS,
    TILE,
    FbgemmInt8Linear,
    Linear,
    RoundedHalfLinear,
    choose_kernel,
    fits_half,
    keeps_rows,
)

pytestmark = pytest.mark.usefixtures("two_threads")

ALL = [kernel for kernels in KERNELS.values() for kernel in kernels]
BOUNDS = {"fp32": 1e-5, "fp16": 1e-3, "bf16": 1e-2, "int8": 3e-2}


def make(
    kernel: type[Linear], n: int, k: int, bias: bool = False, seed: int = 0
) -> tuple[Linear, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(n, k, generator=generator)
    try:
        return kernel(weight, torch.arange(n).float() if bias else None), weight
    except RuntimeError as reason:
        pytest.skip(f"{kernel.kernel} is not in this build of torch: {reason}")


@pytest.mark.parametrize(
    ("weights", "kernel"),
    [(weights, kernel) for weights, kernels in KERNELS.items() for kernel in kernels],
    ids=lambda value: getattr(value, "kernel", value),
)
def test_a_kernel_is_close_to_the_exact_product(weights: str, kernel: type[Linear]) -> None:
    linear, weight = make(kernel, 96, 200, bias=True)
    x = torch.randn(70, 200, generator=torch.Generator().manual_seed(1))
    exact = x.double() @ weight.double().T + torch.arange(96)
    error = (linear(x).double() - exact).norm() / (exact - torch.arange(96)).norm()
    assert error < BOUNDS[weights]


@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: kernel.kernel)
@given(
    rows=st.integers(1, 3 * TILE),
    shape=st.sampled_from([(96, 64), (40, 200), (97, 48)]),
    seed=st.integers(0, 99),
)
@settings(max_examples=12, deadline=None)
def test_a_row_is_the_same_bit_for_bit_in_any_batch(
    kernel: type[Linear], rows: int, shape: tuple[int, int], seed: int
) -> None:
    linear, _ = make(kernel, *shape)
    if not keeps_rows(kernel):
        pytest.skip(f"{kernel.kernel} is never chosen here: its rows depend on their place")
    x = torch.randn(rows, shape[1], generator=torch.Generator().manual_seed(seed))
    x[::2] *= 100  # a neighbour's range must not matter either
    together = linear(x)
    for row in {0, rows // 2, rows - 1}:
        assert torch.equal(linear(x[row : row + 1])[0], together[row])
    assert torch.equal(linear(x.flip(0)), together.flip(0))


def test_a_kernel_whose_rows_change_with_their_number_is_padded_to_stable_counts() -> None:
    class Fickle(Linear):
        kernel = "fickle"

        def _prepare(self, weight):  # type: ignore[no-untyped-def]
            return lambda x: x @ weight.T * (1 + 1e-3 * (x.shape[0] in (1, 2, 7, 14, 31)))

    linear = Fickle(torch.eye(5), None)
    assert linear.padded[1:4] == [3, 3, 3]
    assert linear.padded[7] == 8
    assert linear.padded[31] == 32
    x = torch.ones(40, 5)
    assert torch.equal(linear(x)[0], linear(x[:1])[0])


def test_a_kernel_whose_rows_depend_on_their_place_is_never_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """FBGEMM's fp16 product does on AMD processors; no count of rows is stable there, and it was run all the
    same, padded to 32.
    """

    class Placed(Linear):
        kernel = "placed"

        def _prepare(self, weight):  # type: ignore[no-untyped-def]
            place = 1 + 1e-3 * (torch.arange(TILE) >= 20).float()[:, None]
            return lambda x: x @ weight.T * place[: x.shape[0]]

    assert not keeps_rows(Placed)
    monkeypatch.setitem(KERNELS, "fp16", (Placed, RoundedHalfLinear))
    assert choose_kernel("fp16", torch.device("cpu")) is RoundedHalfLinear


def test_int8_rows_of_zeros_and_of_very_different_sizes_are_kept_apart() -> None:
    linear, weight = make(FbgemmInt8Linear, 32, 64)
    x = torch.zeros(3, 64)
    x[1] = 1e4
    x[2] = 1e-4
    y = linear(x)
    assert torch.equal(y[0], torch.zeros(32))
    for row in (1, 2):
        exact = x[row] @ weight.T
        assert (y[row] - exact).norm() / exact.norm() < 5e-2


def test_a_kernel_is_found_for_every_weight_format() -> None:
    for weights, kernels in KERNELS.items():
        assert choose_kernel(weights, torch.device("cpu")) in kernels


def test_what_fits_fp16_is_told_from_what_does_not() -> None:
    assert fits_half(torch.tensor([65504.0, -1.0]))
    assert not fits_half(torch.tensor([65536.0]))
    assert not fits_half(torch.tensor([-1e6]))
