"""Linear layers whose rows don't depend on their neighbours: row i is the same, bit for bit, in any batch.

A kernel may round differently for different row counts. So each layer is probed when it is built: the row
counts at which every row comes out as it does among many rows are its *stable* counts, and a call is padded
to the next of them. A kernel without enough stable counts always runs tiles of one fixed size.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

Matmul = Callable[[Tensor], Tensor]

HALF_MAX = 65504.0
TILE = 32
"""Rows of the largest call; more rows are cut into tiles of this size."""
TRIAL_SHAPE = (16384, 1024)
"""Weights on which kernels are timed: 16M, so that they come from memory as they do in a pass."""


class Linear:
    """y = x Wᵀ + b over rows, `x [R, K]` float32 to `y [R, N]` float32, rows independent of each other."""

    kernel: ClassVar[str]
    item_bytes: ClassVar[int] = 4
    """Bytes of one weight as it is held, and read in every call."""

    def __init__(self, weight: Tensor, bias: Tensor | None, padded: list[int] | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        self._bias = bias
        self._matmul = self._prepare(weight)
        self.padded = self._probe(weight.device) if padded is None else padded
        """For each row count 0 … TILE the stable count it is padded to: a property of kernel and shape."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of the packed weights, scales and bias left aside."""
        return self.item_bytes * self.out_features * self.in_features

    def _prepare(self, weight: Tensor) -> Matmul:
        """Pack `weight [N, K]` (float32) and return the kernel, `[M, K] -> [M, N]`."""
        raise NotImplementedError

    def __call__(self, x: Tensor) -> Tensor:
        """Return `[R, N]` for `x [R, K]`."""
        rows = x.shape[0]
        y = self._call(x) if rows <= TILE else torch.cat([self._call(tile) for tile in torch.split(x, TILE)])
        return y if self._bias is None else y.add_(self._bias)

    def _call(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        size = self.padded[rows]
        if size == rows:
            return self._matmul(x)
        return self._matmul(F.pad(x, (0, 0, 0, size - rows)))[:rows]

    def _probe(self, device: torch.device) -> list[int]:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(TILE, self.in_features, generator=generator).to(device)
        whole = self._matmul(x)
        padded = [0] * (TILE + 1)
        size = TILE
        for rows in range(TILE, 0, -1):
            if self._is_stable(x, whole, rows):
                size = rows
            padded[rows] = size
        return padded

    def _is_stable(self, x: Tensor, whole: Tensor, rows: int) -> bool:
        first, last = x[:rows], x[TILE - rows :]
        return torch.equal(self._matmul(first), whole[:rows]) and torch.equal(
            self._matmul(last), whole[TILE - rows :]
        )


class TorchLinear(Linear):
    """The plain kernel of every device: `F.linear` in float32, always in tiles of one size."""

    kernel = "torch fp32"

    def _prepare(self, weight: Tensor) -> Matmul:
        return lambda x: F.linear(x, weight)


class OneDnnLinear(Linear):
    """float32 weights in oneDNN's own layout."""

    kernel = "onednn fp32"

    def _prepare(self, weight: Tensor) -> Matmul:
        ops = torch.ops.mkldnn
        packed = ops._reorder_linear_weight(weight, 8)
        return lambda x: ops._linear_pointwise(x, packed, None, "none", [], "")


class RoundedHalfLinear(TorchLinear):
    """fp16 weights where there is no kernel for them: rounded to fp16, held and computed in float32."""

    kernel = "torch fp32 on fp16-rounded weights"

    def _prepare(self, weight: Tensor) -> Matmul:
        return super()._prepare(weight.half().float())


class RoundedBfloatLinear(TorchLinear):
    """bf16 weights, rounded to bf16, held and computed in float32: the reference for faster kernels."""

    kernel = "torch fp32 on bf16-rounded weights"

    def _prepare(self, weight: Tensor) -> Matmul:
        return super()._prepare(weight.bfloat16().float())


class CudaHalfLinear(Linear):
    """fp16 weights and activations on a GPU, accumulated in float32."""

    kernel = "torch fp16"
    item_bytes = 2

    def _prepare(self, weight: Tensor) -> Matmul:
        half = weight.half()
        return lambda x: F.linear(x.half(), half).float()


class FbgemmHalfLinear(Linear):
    """fp16 weights, float32 activations and sums (FBGEMM)."""

    kernel = "fbgemm fp16"
    item_bytes = 2

    def _prepare(self, weight: Tensor) -> Matmul:
        packed = torch.ops.quantized.linear_prepack_fp16(weight, None)
        run = torch.ops.quantized.linear_dynamic_fp16
        return lambda x: run(x, packed)


def _int8_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return int8 weights [N, K] and the scale of each output [N]: symmetric, by its largest value."""
    scale = weight.abs().amax(1).clamp_min(1e-12) / 127
    return (weight / scale[:, None]).round_().to(torch.int8), scale


class TorchInt8Linear(Linear):
    """int8 weights where there is no kernel for them: activations rounded to 8 bits a row, float32 sums."""

    kernel = "torch fp32 on int8-rounded weights"

    def _prepare(self, weight: Tensor) -> Matmul:
        rounded, scale = _int8_rows(weight)
        wide = rounded.float()

        def run(x: Tensor) -> Tensor:
            row = x.abs().amax(1, keepdim=True).clamp_min(1e-12) / 127
            return F.linear((x / row).round_(), wide).mul_(row * scale)

        return run


class FbgemmInt8Linear(Linear):
    """int8 weights, one scale an output; activations 8 bits, one scale a row (FBGEMM).

    The kernel takes one scale for all rows, from the range of its input. Each row is divided by its own
    largest value first, and one more row holds +1 and −1, so that range is [−1, 1] whatever the rows are.
    """

    kernel = "fbgemm int8"
    item_bytes = 1

    def _prepare(self, weight: Tensor) -> Matmul:
        rounded, scale = _int8_rows(weight)
        zeros = torch.zeros(len(scale), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch announces the removal of this constructor
            quantised = torch._make_per_channel_quantized_tensor(rounded, scale.double(), zeros, 0)
            packed = torch.ops.quantized.linear_prepack(quantised, None)
        run = torch.ops.quantized.linear_dynamic
        # Without VNNI the kernel adds pairs of products in 16 bits, which 8-bit activations can overflow.
        reduce_range = not torch.cpu._is_vnni_supported()
        width = weight.shape[1]

        def matmul(x: Tensor) -> Tensor:
            rows = x.shape[0]
            row = x.abs().amax(1, keepdim=True).clamp_min(1e-12)
            scaled = x.new_zeros(rows + 1, width)
            torch.div(x, row, out=scaled[:rows])
            scaled[rows, 0], scaled[rows, 1] = 1.0, -1.0
            return run(scaled, packed, reduce_range)[:rows].mul_(row)  # type: ignore[no-any-return]

        return matmul


KERNELS: dict[str, tuple[type[Linear], ...]] = {
    "fp32": (OneDnnLinear, TorchLinear),
    "fp16": (FbgemmHalfLinear, RoundedHalfLinear),
    "bf16": (RoundedBfloatLinear,),
    "int8": (FbgemmInt8Linear, TorchInt8Linear),
}
"""The kernels of each weight format on a CPU; the last one works everywhere."""


def fits_half(weight: Tensor) -> bool:
    """Tell whether every value is finite in fp16."""
    low, high = weight.aminmax()
    return bool(low >= -HALF_MAX and high <= HALF_MAX)


def choose_kernel(weights: str, device: torch.device) -> type[Linear]:
    """Return the kernel of a weight format that is fastest on this machine.

    Each candidate is timed on one and on four rows, the counts that plain and speculative decoding meet most,
    with weights too large for a cache. One that this build of torch or this processor lacks is left out, and
    one whose rows depend on their place.
    """
    if weights == "file":
        weights = "fp32"
    if device.type != "cpu":
        on_device = {"fp16": CudaHalfLinear, "bf16": RoundedBfloatLinear, "int8": TorchInt8Linear}
        return on_device.get(weights, TorchLinear)
    timed = []
    for kernel in KERNELS[weights]:
        try:
            if keeps_rows(kernel):
                timed.append((_seconds(kernel), kernel))
        except (RuntimeError, AttributeError):
            continue  # not in this build: the plain kernel at the end of the table always is
    return min(timed, key=lambda entry: entry[0])[1]


def keeps_rows(kernel: type[Linear]) -> bool:
    """Tell whether a row comes out the same, bit for bit, wherever it stands in a tile.

    Padding mends what depends on the number of rows; for this there is no remedy. (FBGEMM's fp16 product on
    AMD processors cuts a tile into blocks that round differently.)
    """
    for shape in ((96, 64), (40, 200)):
        generator = torch.Generator().manual_seed(0)
        layer = kernel(torch.randn(shape, generator=generator), None, list(range(TILE + 1)))
        x = torch.randn(TILE, shape[1], generator=generator)
        whole = layer(x)
        if any(not torch.equal(layer(x.roll(by, 0)), whole.roll(by, 0)) for by in range(1, TILE)):
            return False
    return True


def _seconds(kernel: type[Linear]) -> float:
    weight = torch.full(TRIAL_SHAPE, 0.5)
    layers = [
        kernel(weight, None, list(range(TILE + 1))),
        kernel(weight.clone(), None, list(range(TILE + 1))),
    ]
    total = 0.0
    for rows in (1, 4):
        x = torch.ones(rows, TRIAL_SHAPE[1])
        times = []
        for _ in range(3):
            start = time.perf_counter()
            for layer in layers:
                layer(x)
            times.append(time.perf_counter() - start)
        total += min(times)
    return total
