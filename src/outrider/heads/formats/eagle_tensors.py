"""The tensors of EAGLE-1 and EAGLE-2 files, and what their configurations say."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from outrider.heads.eagle import EagleConfig, EagleHead
from outrider.heads.formats.eagle3_tensors import EMBEDDING, layer_names
from outrider.heads.formats.settings import Settings, layer_settings, read_layer
from outrider.heads.formats.spelling import HeadFiles
from outrider.heads.formats.tensors import filled, spelled, without_prefix

_LAYER = "layers.0."
_NORMS = {
    "embedding_layernorm.weight": "embedding_norm.weight",
    "hidden_states_layernorm.weight": "feature_norm.weight",
}


def recognises_tensors(files: HeadFiles) -> bool:
    """Tell whether these are the tensors of an EAGLE head: a fusion and a layer, but no norm of features."""
    names = {name.removeprefix("model.") for name in files.tensors}
    needed = {"fc.weight", f"{_LAYER}self_attn.q_proj.weight"}
    return needed <= names and f"{_LAYER}hidden_norm.weight" not in names


def load_eagle(files: HeadFiles, settings: Settings) -> EagleHead:
    """Return the head whose layer `settings` describe.

    Whether the fusion has a bias and embedding and feature have norms is seen from the tensors, since some
    configurations don't say; one that says otherwise is refused.
    """
    without_prefix(files, "model.")
    bias, norms = "fc.bias" in files.tensors, any(name in files.tensors for name in _NORMS)
    for key, there in (("bias", bias), ("add_para_norm", norms)):
        if settings.has(key) and settings.flag(key) != there:
            present = "has" if there else "lacks"
            raise settings.error(f"{key} is {not there}, but {files.weights} {present} the tensors for it")
    config = EagleConfig(
        layer=read_layer(settings),
        vocab_size=settings.whole("vocab_size"),
        fusion_bias=bias,
        input_norms=norms,
        own_embedding=EMBEDDING in files.tensors,
    )
    return filled(files, lambda: EagleHead(config), _names(config))


def eagle_settings(head: EagleHead) -> dict[str, Any]:
    """Return the configuration of a head, flat, as SafeAILab writes it."""
    config = head.config
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **layer_settings(config.layer),
        "qkv_bias": config.layer.qkv_bias,
        "vocab_size": config.vocab_size,
        "bias": config.fusion_bias,
        "add_para_norm": config.input_norms,
        "tie_word_embeddings": False,
        "torch_dtype": str(head.fusion.weight.dtype).removeprefix("torch."),
    }


def eagle_tensors(head: EagleHead) -> dict[str, Tensor]:
    """Return a head's tensors under the names of a file."""
    return spelled(head, _names(head.config))


def _names(config: EagleConfig) -> dict[str, str]:
    names = {
        "fc.weight": "fusion.weight",
        f"{_LAYER}post_attention_layernorm.weight": "feed_forward_norm.weight",
        **layer_names(_LAYER, config.layer.qkv_bias, config.layer.output_bias, qk_norm=False),
    }
    if config.fusion_bias:
        names["fc.bias"] = "fusion.bias"
    if config.input_norms:
        names |= _NORMS
    if config.own_embedding:
        names[EMBEDDING] = "embedding.weight"
    return names
