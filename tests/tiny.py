"""Tiny decoders with random weights, for tests of the pass itself."""

from __future__ import annotations

import torch
from torch import Tensor

from outrider.models.config import DecoderConfig, RopeConfig
from outrider.models.decoder import Decoder


def tiny_config(
    *,
    heads: int = 6,
    kv_heads: int = 2,
    head_dim: int = 16,
    window: int | None = None,
    qk_norm: bool = False,
    bias: bool = False,
    context_limit: int = 2048,
    hidden: int = 48,
    inner: int = 80,
    layers: int = 2,
    vocab: int = 97,
) -> DecoderConfig:
    return DecoderConfig(
        family="llama",
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=inner,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        norm_eps=1e-5,
        rope=RopeConfig(tuple(10000.0 ** (-2 * i / head_dim) for i in range(head_dim // 2))),
        context_limit=context_limit,
        tied_embeddings=False,
        qkv_bias=bias,
        qk_norm=qk_norm,
        windows=tuple((window, None)[layer % 2] for layer in range(layers)) if window else (),
    )


class RandomSource:
    """Weights drawn anew from a seed; large enough that every layer matters."""

    def __init__(self, config: DecoderConfig, seed: int = 0) -> None:
        self.description = "random weights"
        c, self._generator = config, torch.Generator().manual_seed(seed)
        q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
        self._shapes = {"model.embed_tokens.weight": (c.vocab_size, c.hidden_size)}
        self._shapes["lm_head.weight"] = (c.vocab_size, c.hidden_size)
        self._shapes["model.norm.weight"] = (c.hidden_size,)
        for i in range(c.layers):
            layer = f"model.layers.{i}."
            for norm in ("input_layernorm", "post_attention_layernorm"):
                self._shapes[f"{layer}{norm}.weight"] = (c.hidden_size,)
            matrices = {
                "self_attn.q_proj": (q, c.hidden_size),
                "self_attn.k_proj": (kv, c.hidden_size),
                "self_attn.v_proj": (kv, c.hidden_size),
                "self_attn.o_proj": (c.hidden_size, q),
                "mlp.gate_proj": (c.intermediate_size, c.hidden_size),
                "mlp.up_proj": (c.intermediate_size, c.hidden_size),
                "mlp.down_proj": (c.hidden_size, c.intermediate_size),
            }
            for name, shape in matrices.items():
                self._shapes[f"{layer}{name}.weight"] = shape
                self._shapes[f"{layer}{name}.bias"] = shape[:1]
            for norm in ("q_norm", "k_norm"):
                self._shapes[f"{layer}self_attn.{norm}.weight"] = (c.head_dim,)
        self._tensors = {
            name: torch.randn(shape, generator=self._generator) * (0.3 if len(shape) > 1 else 1.0)
            for name, shape in self._shapes.items()
        }

    def names(self) -> set[str]:
        return set(self._tensors)

    def get(self, name: str) -> Tensor:
        return self._tensors[name].clone()

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].shape)

    def blocks(self, name: str) -> None:
        return None

    def fingerprint(self) -> None:
        return None

    def scale(self, name: str, factor: float) -> None:
        self._tensors[name] *= factor


def tiny_decoder(config: DecoderConfig, weights: str = "fp32", seed: int = 0) -> Decoder:
    return Decoder(config, RandomSource(config, seed), weights=weights, device=torch.device("cpu"))
