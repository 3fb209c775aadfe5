"""Packs a source's matrices for the native pass."""

from __future__ import annotations

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
    """

    def __init__(self, source: TensorSource, weights: str, *, may_widen: bool = False) -> None:
        self._source, self._weights, self._may_widen = source, weights, may_widen
        self._threads = torch.get_num_threads()
        self.notices: list[str] = []
        self.parameters = 0
        self.kinds: set[str] = set()

    def vector(self, name: str) -> Floats:
        """Return a norm or a bias, [N]."""
        tensor = self._source.get(name)
        self.parameters += tensor.numel()
        return np.ascontiguousarray(tensor.numpy())

    def matrix(self, name: str) -> _core.Matrix:
        """Return a matrix, packed."""
        packed = self._from_file(name) if self._weights == "file" else self._converted(name, self._weights)
        self.parameters += packed.outputs * packed.inputs
        self.kinds.add(packed.format)
        return packed

    def top(self, tied: bool) -> tuple[_core.Matrix, _core.Matrix]:
        """Return the embedding and the output head, one and the same where they can be.

        An embedding is read a few rows a pass, so int8, whose point is fewer bytes, leaves it in 16 bits.
        """
        if self._weights != "int8":
            embedding = self.matrix(EMBEDDING)
            return embedding, embedding if tied else self.matrix(HEAD)
        embedding = self._pack(EMBEDDING, "fp16")
        if embedding.largest > HALF_MAX:
            embedding = self._pack(EMBEDDING, "fp32")
        if not tied:
            self.parameters += embedding.outputs * embedding.inputs
        return embedding, self.matrix(EMBEDDING if tied else HEAD)

    def _from_file(self, name: str) -> _core.Matrix:
        blocks = self._source.blocks(name)
        assert blocks is not None, "weights 'file' are for GGUF files"
        if blocks.kind in FLOATS:
            return self._pack(name, FLOATS[blocks.kind])
        if blocks.kind not in BLOCKS:
            raise UnsupportedModelError(
                f"{self._source.description}: tensor {name!r} has the type {blocks.kind}, for which there is "
                f"no kernel; weights 'file' takes {', '.join([*FLOATS, *BLOCKS])}; use weights fp16 instead"
            )
        return self._pack_blocks(name)

    def _converted(self, name: str, weights: str) -> _core.Matrix:
        packed = self._pack(name, weights)
        if weights != "fp16" or packed.largest <= HALF_MAX:
            return packed
        if not self._may_widen:
            raise LoadError(f"{name} holds values that fp16 cannot hold; use --weights auto or fp32")
        self.notices.append(f"{name} kept in fp32: it holds values that fp16 cannot hold")
        return self._pack(name, "fp32")

    def _pack(self, name: str, weights: str) -> _core.Matrix:
        blocks = self._source.blocks(name)
        if blocks is not None and blocks.kind in BLOCKS:  # spares the way through float32 arrays
            return self._pack_blocks(name).repack(weights, self._threads)
        return _core.pack(np.ascontiguousarray(self._source.get(name).numpy()), weights, self._threads)

    def _pack_blocks(self, name: str) -> _core.Matrix:
        blocks = self._source.blocks(name)
        assert blocks is not None
        outputs, inputs = self._source.shape(name)
        order = None if blocks.order is None else blocks.order.numpy()
        return _core.pack_blocks(blocks.raw, outputs, inputs, BLOCKS[blocks.kind], order, self._threads)
