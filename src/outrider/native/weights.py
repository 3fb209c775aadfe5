"""Packs a source's matrices for the native pass."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from outrider.errors import LoadError, UnsupportedModelError
from outrider.models.config import DecoderConfig
from outrider.models.linear import HALF_MAX
from outrider.models.names import EMBEDDING, HEAD, expected_shapes
from outrider.models.source import TensorSource
from outrider.native import _core

FLOATS = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}
BLOCKS = {kind: kind.lower() for kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")}
"""ggml types that the kernels take, and what the core calls them."""
_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1}

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def auto_weights(config: DecoderConfig, source: TensorSource) -> str:
    """Return "file" for a file of quantised blocks that all have kernels, else "fp16".

    The blocks are the very model of the file, and the fewest bytes.
    """
    matrices = [name for name, shape in expected_shapes(config).items() if len(shape) == 2]
    found = [source.blocks(name) for name in matrices]
    kinds = {blocks.kind for blocks in found if blocks is not None}
    return "file" if kinds & BLOCKS.keys() and kinds <= BLOCKS.keys() | FLOATS.keys() else "fp16"


class Packer:
    """Packs matrices in one format: "fp32", "fp16", "bf16", "int8", or "file" for the formats of a GGUF file.

    `may_widen` lets a matrix that fp16 cannot hold be kept in fp32, with a word in `notices`; without it such
    a matrix is a LoadError. UnsupportedModelError, naming tensor and type, for a type that has no kernel.

    `names` are those of the matrices; the head is among them unless it is the embedding, packed in the same
    way. An embedding is read a few rows a pass, so int8, whose point is fewer bytes, leaves it in 16 bits.
    """

    def __init__(
        self, config: DecoderConfig, source: TensorSource, weights: str, *, may_widen: bool = False
    ) -> None:
        self.source, self.weights, self.may_widen = source, weights, may_widen
        self._tied, self._threads = config.tied_embeddings, torch.get_num_threads()
        shapes = expected_shapes(config)
        self.parameters = sum(math.prod(shape) for shape in shapes.values())
        self.names = [name for name, shape in shapes.items() if len(shape) == 2]
        if self._tied and weights == "int8":
            self.names.append(HEAD)
        self.notices: list[str] = []

    def vector(self, name: str) -> Floats:
        """Return a norm or a bias, [N]."""
        return np.ascontiguousarray(self.source.get(name).numpy())

    def matrices(self) -> Iterator[tuple[str, _core.Matrix]]:
        """Pack every matrix, one after the other."""
        for name in self.names:
            yield name, self._matrix(name)

    def expected_bytes(self) -> int:
        """Return about how many bytes the packed matrices take."""
        total = 0
        for name in self.names:
            blocks = self.source.blocks(self._tensor(name)) if self.weights == "file" else None
            size = 2 if name == EMBEDDING and self.weights == "int8" else _BYTES.get(self.weights, 0)
            total += size * math.prod(self.source.shape(self._tensor(name)))
            total += 0 if blocks is None else blocks.raw.nbytes
        return total

    def _tensor(self, name: str) -> str:
        return EMBEDDING if self._tied and name == HEAD else name

    def _matrix(self, name: str) -> _core.Matrix:
        tensor = self._tensor(name)
        if self.weights == "file":
            return self._from_file(tensor)
        if self.weights != "int8" or name != EMBEDDING:
            return self._converted(tensor, self.weights)
        embedding = self._pack(tensor, "fp16")
        return embedding if embedding.largest <= HALF_MAX else self._pack(tensor, "fp32")

    def _from_file(self, name: str) -> _core.Matrix:
        blocks = self.source.blocks(name)
        assert blocks is not None, "weights 'file' are for GGUF files"
        if blocks.kind in FLOATS:
            return self._pack(name, FLOATS[blocks.kind])
        if blocks.kind not in BLOCKS:
            self.source.get(name)  # a type that nothing reads is an error that says so
            raise UnsupportedModelError(
                f"{self.source.description}: tensor {name!r} has the type {blocks.kind}, for which there is "
                f"no kernel; weights 'file' takes {', '.join([*FLOATS, *BLOCKS])}; use weights fp16 instead"
            )
        return self._pack_blocks(name)

    def _converted(self, name: str, weights: str) -> _core.Matrix:
        packed = self._pack(name, weights)
        if weights != "fp16" or packed.largest <= HALF_MAX:
            return packed
        if not self.may_widen:
            raise LoadError(f"{name} holds values that fp16 cannot hold; use --weights auto or fp32")
        self.notices.append(f"{name} kept in fp32: it holds values that fp16 cannot hold")
        return self._pack(name, "fp32")

    def _pack(self, name: str, weights: str) -> _core.Matrix:
        blocks = self.source.blocks(name)
        if blocks is not None and blocks.kind in BLOCKS:  # spares the way through float32 arrays
            return self._pack_blocks(name, weights)
        return _core.pack(np.ascontiguousarray(self.source.get(name).numpy()), weights, self._threads)

    def _pack_blocks(self, name: str, weights: str | None = None) -> _core.Matrix:
        blocks = self.source.blocks(name)
        assert blocks is not None
        outputs, inputs = self.source.shape(name)
        order = None if blocks.order is None else blocks.order.numpy()
        return _core.pack_blocks(
            blocks.raw, outputs, inputs, BLOCKS[blocks.kind], order, self._threads, weights
        )
