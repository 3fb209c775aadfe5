"""The names of a decoder's tensors, and what GGUF files call them."""

from __future__ import annotations

import re

from outrider.models.config import DecoderConfig

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"

_GGUF_TOP = {
    "token_embd.weight": EMBEDDING,
    "output_norm.weight": "model.norm.weight",
    "output.weight": HEAD,
}
_GGUF_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GGUF_BLOCK = re.compile(r"blk\.(\d+)\.([a-z_]+)\.(weight|bias)")


def expected_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """Return every tensor a decoder of this shape reads, by its Hugging Face name."""
    D, H, V = config.hidden_size, config.head_dim, config.vocab_size
    queries, keys, inner = config.heads * H, config.kv_heads * H, config.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (V, D), "model.norm.weight": (D,)}
    if not config.tied_embeddings:
        shapes[HEAD] = (V, D)
    for layer in range(config.layers):
        prefix = f"model.layers.{layer}."
        shapes[prefix + "input_layernorm.weight"] = (D,)
        shapes[prefix + "post_attention_layernorm.weight"] = (D,)
        linears = (
            ("self_attn.q_proj", queries, D, config.qkv_bias),
            ("self_attn.k_proj", keys, D, config.qkv_bias),
            ("self_attn.v_proj", keys, D, config.qkv_bias),
            ("self_attn.o_proj", D, queries, config.output_bias),
            ("mlp.gate_proj", inner, D, config.mlp_bias),
            ("mlp.up_proj", inner, D, config.mlp_bias),
            ("mlp.down_proj", D, inner, config.mlp_bias),
        )
        for name, rows, columns, bias in linears:
            shapes[f"{prefix}{name}.weight"] = (rows, columns)
            if bias:
                shapes[f"{prefix}{name}.bias"] = (rows,)
        if config.qk_norm:
            shapes[prefix + "self_attn.q_norm.weight"] = (H,)
            shapes[prefix + "self_attn.k_norm.weight"] = (H,)
    return shapes


def from_gguf_name(name: str) -> str:
    """Return the Hugging Face name of a GGUF tensor; an unknown name comes back as it is."""
    if name in _GGUF_TOP:
        return _GGUF_TOP[name]
    match = _GGUF_BLOCK.fullmatch(name)
    if match is None or match[2] not in _GGUF_LAYER:
        return name
    return f"model.layers.{match[1]}.{_GGUF_LAYER[match[2]]}.{match[3]}"
