"""EAGLE-3 heads for the native pass."""

from __future__ import annotations

import torch
from torch import Tensor

from outrider.heads.eagle3 import Eagle3Head
from outrider.heads.fit import check_fits
from outrider.native.decoder import NativeDecoder
from outrider.native.head import HeadShape, NativeHead


def native_head(head: Eagle3Head, target: NativeDecoder, *, weights: str = "fp16") -> NativeHead:
    """Return the head packed for the core, with the target's embedding unless it brings its own.

    `weights`: "fp32", "fp16", "bf16" or "int8", whatever the type of the head's own. Later changes of the
    head are not seen. HeadError for a head that was made for another target, LoadError for values that the
    format cannot hold.
    """
    check_fits(head.config, target.config)
    config, layer = head.config, head.config.layer
    shape = HeadShape(
        vocab_size=config.vocab_size,
        draft_vocab_size=config.draft_vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=layer.intermediate_size,
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        head_dim=layer.head_dim,
        norm_eps=layer.norm_eps,
        rope=layer.rope,
        context_limit=target.context_limit,
        norm_before_residual=config.norm_before_residual,
        feed_normed=config.feed_normed,
        norm_parts=config.feature_count if config.feature_norms else 1,
    )
    top = {"head": head.head.weight, "norm": head.norm.weight, "fusion": head.fusion.weight}
    if head.feature_norms is not None:
        top["fusion_norm"] = torch.cat([norm.get_parameter("weight") for norm in head.feature_norms])
    if head.input_norm is not None:
        top["fusion_norm"] = head.input_norm.weight
    embedding = target.embedding if head.embedding is None else head.embedding.weight
    return NativeHead(shape, [_layer(head)], top, embedding, weights=weights, isa=target.isa)


def _layer(head: Eagle3Head) -> dict[str, Tensor]:
    """Return the tensors of the head's one layer under the names of `NativeHead`."""
    attention, forward = head.attention, head.feed_forward
    linears = {
        "q": attention.query,
        "k": attention.key,
        "v": attention.value,
        "o": attention.output,
        "gate": forward.gate,
        "up": forward.up,
        "down": forward.down,
    }
    norms = {
        "input_norm": head.embedding_norm,
        "hidden_norm": head.hidden_norm,
        "mlp_norm": head.feed_forward_norm,
        "q_norm": attention.query_norm,
        "k_norm": attention.key_norm,
    }
    tensors = {name: linear.weight for name, linear in linears.items()}
    tensors |= {f"{name}_bias": linear.bias for name, linear in linears.items() if linear.bias is not None}
    return tensors | {name: norm.weight for name, norm in norms.items() if norm is not None}
