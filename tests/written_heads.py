"""Heads as other programs write them, spelled out by hand: their configurations, names and shapes.

H = 12 wide, 4 heads on 2 of 6, I = 20, V = 30 tokens of the target, Vd = 4 of the draft.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

LAYER = {
    "self_attn.q_proj.weight": (24, 24),
    "self_attn.k_proj.weight": (12, 24),
    "self_attn.v_proj.weight": (12, 24),
    "self_attn.o_proj.weight": (12, 24),
    "mlp.gate_proj.weight": (20, 12),
    "mlp.up_proj.weight": (20, 12),
    "mlp.down_proj.weight": (12, 20),
    "post_attention_layernorm.weight": (12,),
}
EAGLE3_LAYER = {**LAYER, "hidden_norm.weight": (12,), "input_layernorm.weight": (12,)}
EAGLE3 = {"fc.weight": (12, 36), "norm.weight": (12,), "lm_head.weight": (4, 12)}
EAGLE_LAYER = {
    **LAYER,
    "self_attn.q_proj.weight": (24, 12),
    "self_attn.k_proj.weight": (12, 12),
    "self_attn.v_proj.weight": (12, 12),
}
D2T = torch.tensor([0, 2, 2, 26])
"""Draft ids 0 to 3 stand for the target's 0, 3, 4 and 29."""
T2D = torch.zeros(30, dtype=torch.bool)
T2D[[0, 3, 4, 29]] = True

SIZES = {
    "hidden_size": 12,
    "intermediate_size": 20,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-05,
    "max_position_embeddings": 512,
    "rope_theta": 5000.0,
    "vocab_size": 30,
}
SPECFORGE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    **SIZES,
    "rope_scaling": None,
    "draft_vocab_size": 4,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [1, 15, 28]},
}
SPECULATORS: dict[str, Any] = {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "speculators_version": "0.3.0",
    "model_type": "speculator_model",
    "transformer_layer_config": {"model_type": "llama", **SIZES},
    "draft_vocab_size": 4,
    "norm_before_residual": True,
    "target_hidden_size": None,
    "eagle_aux_hidden_state_layer_ids": [2, 16, 29],
    "speculators_config": {
        "algorithm": "eagle3",
        "default_proposal_method": "greedy",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
        "verifier": {"name_or_path": "some/model", "architectures": ["LlamaForCausalLM"]},
    },
}
EAGLE: dict[str, Any] = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **SIZES}
EAGLE_VLLM: dict[str, Any] = {
    "architectures": ["EagleLlamaForCausalLM"],
    "model_type": "eagle",
    "model": EAGLE,
    "truncated_vocab_size": 30,
}
MEDUSA: dict[str, Any] = {
    "medusa_num_heads": 2,
    "medusa_num_layers": 1,
    "base_model_name_or_path": "some/model",
    "version": "2",
}
MEDUSA_VLLM: dict[str, Any] = {
    "architectures": ["MedusaModel"],
    "model_type": "medusa",
    "hidden_size": 12,
    "vocab_size": 30,
    "num_heads": 2,
    "num_hidden_layers": 1,
    "max_paths": 64,
    "topk": 10,
}


def numbered(shapes: Mapping[str, tuple[int, ...]], prefix: str = "") -> dict[str, Tensor]:
    """Return a tensor of each name and shape, no two of them alike."""
    return {
        prefix + name: torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        for seed, (name, shape) in enumerate(shapes.items())
    }


def specforge_tensors(layer: str = "midlayer.") -> dict[str, Tensor]:
    return {**numbered(EAGLE3), **numbered(EAGLE3_LAYER, layer), "d2t": D2T.clone(), "t2d": T2D.clone()}


def eagle_tensors() -> dict[str, Tensor]:
    top = {"embed_tokens.weight": (30, 12), "fc.weight": (12, 24), "fc.bias": (12,)}
    return {**numbered(top), **numbered(EAGLE_LAYER, "layers.0.")}


def medusa_tensors(heads: int = 2) -> dict[str, Tensor]:
    return numbered(
        {
            f"{head}.{name}": shape
            for head in range(heads)
            for name, shape in {
                "0.linear.weight": (12, 12),
                "0.linear.bias": (12,),
                "1.weight": (30, 12),
            }.items()
        }
    )


def medusa_vllm_tensors(vocab: int = 30) -> dict[str, Tensor]:
    shapes: dict[str, tuple[int, ...]] = {}
    for head in range(2):
        shapes[f"blocks.{head}.layers.0.weight"] = (12, 12)
        shapes[f"lm_heads.{head}.weight"] = (vocab, 12)
    return numbered(shapes)


def write(
    directory: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    weights: str = "model.safetensors",
) -> Path:
    """Write a head's directory as plain as it can be."""
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config))
    if weights.endswith(".safetensors"):
        save_file(dict(tensors), directory / weights)
    else:
        torch.save(dict(tensors), directory / weights)
    return directory
