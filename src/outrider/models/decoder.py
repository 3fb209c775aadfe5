"""The lean decoder in PyTorch: one pass over a ragged batch of trees. The reference for any faster pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.cache.base import Cache, Page
from outrider.cache.kv import KvCache, kv_caches
from outrider.errors import LoadError, UnknownNameError
from outrider.models.attention import Attention, spans, stable_queries
from outrider.models.base import NORMED, Batch, PassOutput
from outrider.models.config import DecoderConfig
from outrider.models.linear import Linear, choose_kernel, fits_half
from outrider.models.rope import rotation
from outrider.models.source import TensorSource
from outrider.models.states import chosen_layers

WEIGHTS = ("auto", "fp32", "fp16", "bf16", "int8", "file")
ACTIVATIONS = ("auto", "int16", "int8")


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer; query, key and value in one matrix, gate and up in another."""

    input_norm: Tensor
    qkv: Linear
    qk_norm: Tensor | None
    """Norm of each head's query and key, [H + Hkv, D]."""
    output: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear
    window: int | None


def gated(gate_up: Tensor) -> Tensor:
    """Return silu(gate) · up, `[R, 2 I]` to `[R, I]`.

    torch computes an exponential differently in the vector part and in the tail of a run of elements, and it
    cuts runs of 32,768 and more anywhere, one piece for each thread. Shorter runs end with a row.
    """
    width = gate_up.shape[1] // 2
    rows = max(1, (UNCUT - 1) // width)
    if gate_up.shape[0] > rows:
        return torch.cat([gated(tile) for tile in torch.split(gate_up, rows)])
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


UNCUT = 32768
"""Elementwise operations of torch on fewer elements run in one thread, each row in one run."""


class Decoder:
    """Implements `models.base.CapturingTarget`: pre-norm decoders, grouped heads, a gated feed-forward.

    On a CPU a position's logits are the same, bit for bit, whether it is computed alone, in a chain, in a
    tree or in a batch. Activations are float32; weights as `weights` says: "fp32", "fp16", "bf16", "int8",
    "file" for the very values of the file (held in fp32), or "auto" for fp16 with those matrices in fp32
    whose values don't fit. LoadError where "fp16" is asked for by name and does not fit.
    """

    can_branch = True
    can_capture = True

    def __init__(
        self, config: DecoderConfig, source: TensorSource, *, weights: str = "auto", device: torch.device
    ) -> None:
        self.config = config
        self.vocab_size = config.vocab_size
        self.context_limit = config.context_limit
        self.layers, self.hidden_size = config.layers, config.hidden_size
        self.device = device
        self.notices: list[str] = []
        check_weights(weights)
        self.weights = "fp16" if weights == "auto" else weights
        self._may_widen = weights == "auto"
        self._kernel = self._choose_kernel(self.weights)
        self.kernel, self.activations = self._kernel.kernel, "fp32"
        self._padded: dict[tuple[type[Linear], torch.Size], list[int]] = {}
        self.parameters = 0
        embedding = self._tensor(source, "model.embed_tokens.weight")
        self._embedding = embedding.to(embedding_type(self.weights, embedding))
        self._layers = [self._read_layer(source, index) for index in range(config.layers)]
        self._norm = self._tensor(source, "model.norm.weight")
        head = embedding if config.tied_embeddings else self._tensor(source, "lm_head.weight")
        self._head = self._linear("lm_head", head, None)
        self._groups = config.heads // config.kv_heads
        self._min_queries = stable_queries(config.kv_heads, self._groups, config.head_dim, device)
        self._cos, self._sin = self._rotation(0)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the matrices that every pass reads: those of the layers and the head."""
        return sum(self.layer_bytes) + self._head.weight_bytes

    @property
    def layer_bytes(self) -> list[int]:
        """Of these, the bytes of each layer."""
        return [
            sum(matrix.weight_bytes for matrix in (layer.qkv, layer.output, layer.gate_up, layer.down))
            for layer in self._layers
        ]

    def new_cache(self, pages: Sequence[Page] = ()) -> KvCache:
        """Return a cache for one sequence, which begins with these pages; ValueError for pages of others."""
        return KvCache(self.config.layers, self.config.kv_heads, self.config.head_dim, self.device, pages)

    def forward(self, batch: Batch, caches: Sequence[Cache]) -> Tensor:
        """Run one pass over `batch`; return float32 logits [W, V]."""
        return self.run(batch, caches).logits

    @torch.inference_mode()
    def run(
        self,
        batch: Batch,
        caches: Sequence[Cache],
        *,
        layers: Sequence[int] | None = None,
        captured: Sequence[int] = (),
    ) -> PassOutput:
        """Run one pass through `layers` (in this order; None: all) and keep the states after `captured`.

        `NORMED` in `captured` is the last of them after the final norm. A layer that is left out writes no
        keys and values: the rows of such a pass must be forgotten before a pass through more layers reads the
        cache.
        """
        every = chosen_layers(layers, captured, self.config.layers)
        own = kv_caches(caches)
        layout = spans(batch, own, self.device)
        attention = Attention(layout, self._groups, self._min_queries)
        positions = torch.tensor(batch.positions, device=self.device)
        if int(positions.max()) >= len(self._cos):
            self._cos, self._sin = self._rotation(int(positions.max()) + 1)
        cos, sin = self._cos[positions, None], self._sin[positions, None]  # [R, 1, D]
        x = self._embedding[torch.tensor(batch.tokens, device=self.device)].float()  # [R, hidden]
        states: dict[int, Tensor] = {}
        for index in every:
            layer = self._layers[index]
            x = self._attend(index, layer, x, cos, sin, attention)
            h = F.rms_norm(x, x.shape[-1:], layer.mlp_norm, self.config.norm_eps)
            x = x + layer.down(gated(layer.gate_up(h)))
            if index in captured:
                states[index] = x
        if NORMED in captured:
            states[NORMED] = self._final(x)
        hidden = torch.stack([states[index] for index in captured]) if captured else x.new_empty(0, *x.shape)
        x = x[torch.tensor(batch.wanted, dtype=torch.long, device=self.device)]
        return PassOutput(self._head(self._final(x)), hidden)

    @torch.inference_mode()
    def embed(self, tokens: Sequence[int]) -> Tensor:
        """Return the embeddings of tokens, float32 [R, D]; IndexError for one that is not there."""
        return self._embedding[torch.tensor(tokens, dtype=torch.long, device=self.device)].float()

    @torch.inference_mode()
    def head(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [R, V] of hidden states [R, D] after the final norm."""
        return self._head(hidden.to(self.device, torch.float32))

    def _final(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self._norm, self.config.norm_eps)

    def _attend(
        self, index: int, layer: Layer, x: Tensor, cos: Tensor, sin: Tensor, attention: Attention
    ) -> Tensor:
        config, rows = self.config, x.shape[0]
        heads, kv_heads, dim = config.heads, config.kv_heads, config.head_dim
        qkv = layer.qkv(F.rms_norm(x, x.shape[-1:], layer.input_norm, config.norm_eps))
        qkv = qkv.view(rows, heads + 2 * kv_heads, dim)
        qk, v = qkv[:, : heads + kv_heads], qkv[:, heads + kv_heads :]
        if layer.qk_norm is not None:
            qk = F.rms_norm(qk, (dim,), None, config.norm_eps) * layer.qk_norm
        # Rotate-half: the sine table carries the sign, so a roll by half a head is all that is left to do.
        qk = (qk * cos).add_(qk.roll(dim // 2, -1) * sin)
        q = qk[:, :heads].view(rows, kv_heads, self._groups, dim)
        attended = attention(index, layer.window, q, qk[:, heads:], v)
        return x + layer.output(attended.reshape(rows, heads * dim))

    def _choose_kernel(self, weights: str) -> type[Linear]:
        kernel = choose_kernel(weights, self.device)
        if kernel.kernel.startswith("torch") and self.device.type == "cpu":
            self.notices.append(f"no fast kernel for {weights} weights here; using {kernel.kernel}")
        return kernel

    def _tensor(self, source: TensorSource, name: str) -> Tensor:
        tensor = source.get(name)
        self.parameters += tensor.numel()
        return tensor.to(self.device)

    def _linear(self, name: str, weight: Tensor, bias: Tensor | None) -> Linear:
        kernel = self._kernel
        if self.weights == "fp16" and not fits_half(weight):
            if not self._may_widen:
                raise LoadError(f"{name} holds values that fp16 cannot hold; use --weights auto or fp32")
            self.notices.append(f"{name} kept in fp32: it holds values that fp16 cannot hold")
            kernel = self._choose_kernel("fp32")
        linear = kernel(weight, bias, self._padded.get((kernel, weight.shape)))
        self._padded[kernel, weight.shape] = linear.padded
        return linear

    def _stack(self, source: TensorSource, names: Sequence[str], bias: bool) -> Linear:
        weight = torch.cat([self._tensor(source, f"{name}.weight") for name in names])
        offset = torch.cat([self._tensor(source, f"{name}.bias") for name in names]) if bias else None
        return self._linear(names[0], weight, offset)

    def _read_layer(self, source: TensorSource, index: int) -> Layer:
        config, prefix = self.config, f"model.layers.{index}"
        attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
        qk_norm = None
        if config.qk_norm:
            q = self._tensor(source, f"{attention}.q_norm.weight").expand(config.heads, -1)
            k = self._tensor(source, f"{attention}.k_norm.weight").expand(config.kv_heads, -1)
            qk_norm = torch.cat([q, k])
        return Layer(
            input_norm=self._tensor(source, f"{prefix}.input_layernorm.weight"),
            qkv=self._stack(source, [f"{attention}.{part}_proj" for part in "qkv"], config.qkv_bias),
            qk_norm=qk_norm,
            output=self._stack(source, [f"{attention}.o_proj"], config.output_bias),
            mlp_norm=self._tensor(source, f"{prefix}.post_attention_layernorm.weight"),
            gate_up=self._stack(source, [f"{mlp}.gate_proj", f"{mlp}.up_proj"], config.mlp_bias),
            down=self._stack(source, [f"{mlp}.down_proj"], config.mlp_bias),
            window=config.window(index),
        )

    def _rotation(self, positions: int) -> tuple[Tensor, Tensor]:
        """Return cosine and signed sine of at least `positions` positions, [P, D] each."""
        cos, sin = rotation(self.config.rope, positions)
        return torch.cat([cos, cos], -1).to(self.device), torch.cat([-sin, sin], -1).to(self.device)


def embedding_type(weights: str, embedding: Tensor) -> torch.dtype:
    """Return the type that holds an embedding: 16 bits where the weights have no more, if its values fit.

    It is read a few rows a pass, so int8, whose point is fewer bytes to read, leaves it in 16 bits.
    """
    if weights in ("fp16", "int8"):
        return torch.float16 if fits_half(embedding) else torch.float32
    return torch.bfloat16 if weights == "bf16" else torch.float32


def check_weights(name: str) -> str:
    """Return the name of a format of weights unchanged; UnknownNameError where there is no such format."""
    if name not in WEIGHTS:
        raise UnknownNameError("weights", name, WEIGHTS)
    return name


def check_activations(name: str) -> str:
    """Return the name of a precision of activations unchanged; UnknownNameError where there is none such."""
    if name not in ACTIVATIONS:
        raise UnknownNameError("activations", name, ACTIVATIONS)
    return name
