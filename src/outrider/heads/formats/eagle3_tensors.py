"""The tensors of EAGLE-3 files: the same in all spellings but for the name of the layer."""

from __future__ import annotations

from torch import Tensor

from outrider.errors import HeadError
from outrider.heads.eagle3 import Eagle3Config, Eagle3Head
from outrider.heads.formats.spelling import HeadFiles
from outrider.heads.formats.tensors import filled, spelled
from outrider.heads.vocab import ids_from_files, mask_of, offsets_of

EMBEDDING, D2T, T2D = "embed_tokens.weight", "d2t", "t2d"


def load_eagle3(files: HeadFiles, config: Eagle3Config, layer: str) -> Eagle3Head:
    """Return the head of a file whose layer's tensors are named with `layer` in front."""
    d2t, t2d = files.tensors.pop(D2T, None), files.tensors.pop(T2D, None)
    ids = ids_from_files(d2t, t2d, config.draft_vocab_size, config.vocab_size)
    return filled(files, lambda: Eagle3Head(config, ids), names_of(config, layer))


def eagle3_tensors(head: Eagle3Head, layer: str) -> dict[str, Tensor]:
    """Return a head's tensors under the names of a file, the map of its vocabulary among them.

    HeadError for a draft vocabulary of the target's first tokens, whose map cannot be told from a lost one.
    """
    d2t = offsets_of(head.target_ids)
    if head.config.draft_vocab_size < head.config.vocab_size and not bool(d2t.any()):
        raise HeadError(
            f"the head drafts the target's first {len(d2t)} tokens, so d2t would be all zeros, which readers "
            "take for a map that was lost; choose the draft vocabulary by how frequent tokens are"
        )
    return {
        **spelled(head, names_of(head.config, layer)),
        D2T: d2t,
        T2D: mask_of(head.target_ids, head.config.vocab_size),
    }


def names_of(config: Eagle3Config, layer: str) -> dict[str, str]:
    """Return each tensor's name in a file with the head's own name for it."""
    names = {
        "fc.weight": "fusion.weight",
        f"{layer}hidden_norm.weight": "hidden_norm.weight",
        f"{layer}input_layernorm.weight": "embedding_norm.weight",
        f"{layer}post_attention_layernorm.weight": "feed_forward_norm.weight",
        "norm.weight": "norm.weight",
        "lm_head.weight": "head.weight",
        **layer_names(layer, config.layer.qkv_bias, config.layer.output_bias, config.layer.qk_norm),
    }
    if config.own_embedding:
        names[EMBEDDING] = "embedding.weight"
    if config.input_norm:
        names["input_norm.weight"] = "input_norm.weight"
    if config.feature_norms:
        for index in range(config.feature_count):
            names[f"fc_norm.{index}.weight"] = f"feature_norms.{index}.weight"
    return names


def layer_names(layer: str, qkv_bias: bool, output_bias: bool, qk_norm: bool) -> dict[str, str]:
    """Return the names of attention and feed-forward in a file, with the head's own names for them."""
    parts = {"q_proj": "query", "k_proj": "key", "v_proj": "value"}
    names = {f"{layer}self_attn.{name}.weight": f"attention.{own}.weight" for name, own in parts.items()}
    names[f"{layer}self_attn.o_proj.weight"] = "attention.output.weight"
    if qkv_bias:
        names |= {f"{layer}self_attn.{name}.bias": f"attention.{own}.bias" for name, own in parts.items()}
    if output_bias:
        names[f"{layer}self_attn.o_proj.bias"] = "attention.output.bias"
    if qk_norm:
        names[f"{layer}self_attn.q_norm.weight"] = "attention.query_norm.weight"
        names[f"{layer}self_attn.k_norm.weight"] = "attention.key_norm.weight"
    for part in ("gate", "up", "down"):
        names[f"{layer}mlp.{part}_proj.weight"] = f"feed_forward.{part}.weight"
    return names
