"""A drafting head on another model's hidden states, run by the core that runs the decoder: one call a level.

The layer is that of EAGLE-3 (Li et al. 2025, arXiv 2503.01840, section 3): it takes the embedding of a row's
token beside the state that the row continues from.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from outrider.cache.base import Cache, Page
from outrider.errors import LoadError, UnknownNameError
from outrider.models.base import Batch
from outrider.models.config import RopeConfig
from outrider.models.linear import HALF_MAX
from outrider.native import _core
from outrider.native.decoder import NativeDecoder
from outrider.native.kv import NativeCache, cores
from outrider.native.rotation import Rotations

WEIGHTS = ("fp32", "fp16", "bf16", "int8")
MATRICES = ("q", "k", "v", "o", "gate", "up", "down")


@dataclass(frozen=True, slots=True)
class HeadShape:
    """The shape of a head: what its tensors don't say themselves."""

    vocab_size: int
    """V: tokens of the target, which the embedding knows."""
    draft_vocab_size: int
    """Vd: tokens that the head names."""
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope: RopeConfig
    context_limit: int
    norm_before_residual: bool = False
    """A joined layer's residual is the normed state instead of the state itself."""
    feed_normed: bool = False
    """The states to go on from are those after the final norm."""
    norm_parts: int = 1
    """In how many parts of one width the norm before the fusion takes the features, if there is one."""


@dataclass(frozen=True, slots=True)
class HeadOutput:
    """What one pass of a head gives for the rows of `Batch.wanted`, in their order, float32.

    `logits [W, Vd]`, and `states [W, H]`: what a row that continues such a row takes as its input.
    """

    logits: Tensor
    states: Tensor


class NativeHead:
    """Runs a head's passes on a CPU; a row is the same, bit for bit, whatever shares its pass.

    `layers` holds each layer's tensors: q, k, v, o, gate, up, down `[outputs, inputs]`, input_norm and
    mlp_norm `[H]`, and hidden_norm `[H]` where the layer is joined: then its q, k and v take `[…, 2H]`, the
    normed embedding (input_norm) before the normed state (hidden_norm). Optional are q_norm and k_norm
    `[head_dim]`, and a bias for any matrix (q_bias …). `top` holds head `[Vd, H]` and norm `[H]`, and for
    features of F values a row: fusion `[H, F]`, and if need be fusion_bias `[H]` and fusion_norm `[F]`.
    ValueError for a tensor that is unknown, missing or of another shape.

    `embedding [V, H]` is a tensor or, without a copy, a target's packed matrix (`NativeDecoder.embedding`).
    Weights and `isa` as in `NativeDecoder`, without "auto" and "file".
    """

    can_grow = True

    def __init__(
        self,
        shape: HeadShape,
        layers: Sequence[Mapping[str, Tensor]],
        top: Mapping[str, Tensor],
        embedding: Tensor | _core.Matrix,
        *,
        weights: str = "fp16",
        isa: str | None = None,
    ) -> None:
        if weights not in WEIGHTS:
            raise UnknownNameError("format of a head's weights", weights, WEIGHTS)
        unknown = top.keys() - {"head", "norm", "fusion", "fusion_bias", "fusion_norm"}
        if unknown or not {"head", "norm"} <= top.keys():
            raise ValueError(
                f"a head's top has head, norm and perhaps a fusion, not {', '.join(sorted(top))}"
            )
        self.shape, self.weights, self._layers = shape, weights, len(layers)
        self._core = _core.make_decoder(
            shape.vocab_size,
            shape.hidden_size,
            shape.intermediate_size,
            shape.heads,
            shape.kv_heads,
            shape.head_dim,
            shape.norm_eps,
            isa,
            shape.draft_vocab_size,
        )
        self.weight_bytes = 0
        """Bytes of the matrices that every pass reads, without the embedding, of which it reads rows."""
        for layer in layers:
            parts: dict[str, object] = {
                name: self._packed(name, tensor) if name in MATRICES else _vector(tensor)
                for name, tensor in layer.items()
            }
            self._core.add_layer(parts, 0, shape.norm_before_residual and "hidden_norm" in parts)
        if isinstance(embedding, Tensor):
            # Rows are read, not multiplied: int8, whose point is fewer bytes, leaves them in 16 bits.
            embedding = _pack("embedding", embedding, "fp16" if weights == "int8" else weights)
        self._core.set_top(embedding, _vector(top["norm"]), self._packed("head", top["head"]))
        self.features: int | None = None
        """F, values of a row of features; None where the head takes none."""
        if "fusion" in top:
            bias, norm = (
                _vector(top[name]) if name in top else None for name in ("fusion_bias", "fusion_norm")
            )
            self._core.set_fusion(self._packed("fusion", top["fusion"]), bias, norm, shape.norm_parts)
            self.features = top["fusion"].shape[1]
        self._rotations = Rotations(self._core, shape.rope, shape.context_limit)
        self._running = threading.Lock()

    def new_cache(self, pages: Sequence[Page] = ()) -> NativeCache:
        """Return a cache for one sequence, which begins with these pages; ValueError for pages of others."""
        return NativeCache(self._layers, self.shape.kv_heads, self.shape.head_dim, pages)

    def run(
        self,
        batch: Batch,
        caches: Sequence[Cache],
        *,
        inputs: Tensor | None = None,
        features: Tensor | None = None,
        grows: bool = False,
    ) -> HeadOutput:
        """Run one pass over rows that go on from `inputs [R, H]`, or from `features [R, F]`, which are fused.

        The rows' tokens are those whose embeddings joined layers take. With `grows` the rows that are pending
        in the caches stay, and the batch's come after them: a parent of −2 − i is pending row i of the
        sequence, so that a tree grows level by level and no row is run twice.

        ValueError for a batch or an array that is malformed or does not fit: the caches are as they were.
        `Cancelled` where `cancel` stopped the pass: nothing is pending in them then. CapabilityError for a
        cache of another pass.
        """
        own = cores(caches)
        logits = np.empty((len(batch.wanted), self.shape.draft_vocab_size), np.float32)
        states = np.empty((len(batch.wanted), self.shape.hidden_size), np.float32)
        with self._running:
            self._rotations.reach(max(batch.positions, default=0))
            self._core.run(
                batch.tokens,
                batch.positions,
                batch.sequences,
                batch.parents,
                batch.wanted,
                own,
                min(torch.get_num_threads(), NativeDecoder.most_threads),
                logits,
                inputs=_rows("inputs", inputs),
                features=_rows("features", features),
                states=states,
                normed=self.shape.feed_normed,
                grows=grows,
            )
        return HeadOutput(torch.from_numpy(logits), torch.from_numpy(states))

    def cancel(self) -> None:
        """Stop the pass that is running in another thread, at its next layer; without one, do nothing."""
        self._core.cancel()

    def _packed(self, name: str, weights: Tensor) -> _core.Matrix:
        matrix = _pack(name, weights, self.weights)
        self.weight_bytes += matrix.nbytes
        return matrix


def _pack(name: str, weights: Tensor, kind: str) -> _core.Matrix:
    if weights.dim() != 2:
        raise ValueError(f"{name} must be a matrix [outputs, inputs], not {list(weights.shape)}")
    matrix = _core.pack(_numbers(weights), kind, torch.get_num_threads())
    if kind == "fp16" and matrix.largest > HALF_MAX:
        raise LoadError(f"the head's {name} holds values that fp16 cannot hold; use bf16 or fp32")
    return matrix


def _vector(values: Tensor) -> _core.Floats:
    if values.dim() != 1:
        raise ValueError(f"a norm or a bias must be [size], not {list(values.shape)}")
    return _numbers(values)


def _rows(name: str, values: Tensor | None) -> _core.Floats | None:
    if values is None:
        return None
    if values.dim() != 2:
        raise ValueError(f"{name} must be [rows, width], not {list(values.shape)}")
    return _numbers(values)


def _numbers(values: Tensor) -> _core.Floats:
    return np.ascontiguousarray(values.detach().to("cpu", torch.float32).numpy())
