"""What SafeAILab, SpecForge and SGLang share: a flat Llama configuration, and a layer called `midlayer`.

All of them name a feature by the layer whose output it is, in `eagle_config`. A list at the top of the
configuration is vLLM's, which counts the layer whose input it is: one more.
"""

from __future__ import annotations

from typing import Any

from outrider.errors import HeadError
from outrider.heads.eagle3 import Eagle3Config, Eagle3Head
from outrider.heads.formats.eagle3_tensors import EMBEDDING, load_eagle3
from outrider.heads.formats.settings import Settings, layer_settings, read_layer
from outrider.heads.formats.spelling import HeadFiles
from outrider.heads.formats.tensors import without_prefix

LAYER = "midlayer."
ARCHITECTURE = "LlamaForCausalLMEagle3"
_LAYERS = "eagle_aux_hidden_state_layer_ids"


def recognises(files: HeadFiles) -> bool:
    """Tell whether these are an EAGLE-3 head's tensors; newer files may call the layer `layers.0`."""
    names = {name.removeprefix("model.") for name in files.tensors}
    return any(f"{layer}hidden_norm.weight" in names for layer in (LAYER, "layers.0."))


def load(files: HeadFiles) -> Eagle3Head:
    """Return the head of a directory in this spelling."""
    without_prefix(files, "model.")
    for name in [name for name in files.tensors if name.startswith("layers.0.")]:
        files.tensors[LAYER + name.removeprefix("layers.0.")] = files.tensors.pop(name)
    settings = Settings(files.config, str(files.directory / "config.json"))
    inner = settings.table("eagle_config")
    settings.refuse("tie_word_embeddings", "heads whose output is their embedding are not supported", False)
    settings.refuse("bias", "a bias after the features are fused is not supported", False)
    settings.refuse("logit_scale", "scaled logits are not supported", 1.0)
    settings.refuse("use_aux_norm", "write fc_norm for it", False)
    inner.refuse("use_aux_hidden_state", "it reads no features of inner layers, as EAGLE-3 does", True)
    for key in ("eh_proj_before_attn", "parallel_drafting", "return_hidden_post_norm"):
        inner.refuse(key, "heads of this kind are not supported", False)
    if files.config.get("attention_bias") or files.config.get("qkv_bias"):
        files.notes.append("attention_bias is set, but heads of this spelling never have one")
    layer = read_layer(settings, biases=False)
    vocab = settings.whole("vocab_size")
    flags = {
        key: _flag(settings, inner, key) for key in ("norm_before_residual", "norm_before_fc", "fc_norm")
    }
    feeds = _flag(settings, inner, "norm_output")
    if feeds:
        files.notes.append(
            "norm_output is true, read as serving engines read it: each step is fed the normed output of the "
            "step before. SpecForge before September 2026 wrote it for heads that are fed the output as it is"
        )
    config = Eagle3Config(
        layer=layer,
        vocab_size=vocab,
        draft_vocab_size=settings.whole("draft_vocab_size", vocab),
        target_hidden_size=settings.whole("target_hidden_size", layer.hidden_size),
        feature_layers=_feature_layers(settings, inner),
        norm_before_residual=flags["norm_before_residual"],
        feature_norms=flags["fc_norm"],
        input_norm=flags["norm_before_fc"],
        feed_normed=feeds,
        own_embedding=EMBEDDING in files.tensors,
    )
    return load_eagle3(files, config, LAYER)


def midlayer_settings(head: Eagle3Head, spelling: str) -> dict[str, Any]:
    """Return the configuration of a head; HeadError for one that programs of this spelling cannot run."""
    config, layer = head.config, head.config.layer
    impossible = {
        "norm_before_residual": config.norm_before_residual,
        "a norm of all features together (norm_before_fc)": config.input_norm,
        "biases in its attention": layer.qkv_bias or layer.output_bias,
        "norms of queries and keys": layer.qk_norm,
    }
    for what, there in impossible.items():
        if there:
            raise HeadError(
                f"the head has {what}, which programs that read {spelling} files leave out without a word; "
                "save it as 'speculators'"
            )
    inner: dict[str, Any] = {"use_aux_hidden_state": True}
    if config.feature_layers is not None:
        inner[_LAYERS] = list(config.feature_layers)
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        **layer_settings(layer),
        "vocab_size": config.vocab_size,
        "draft_vocab_size": config.draft_vocab_size,
        **({"target_hidden_size": config.target_hidden_size} if _differs(config) else {}),
        "num_aux_hidden_states": config.feature_count,
        "fc_norm": config.feature_norms,
        "eagle_config": inner,
        "tie_word_embeddings": False,
        "torch_dtype": str(head.head.weight.dtype).removeprefix("torch."),
    }


def _differs(config: Eagle3Config) -> bool:
    """Tell whether the target is of another width: SafeAILab's code takes the mere key for a yes."""
    return config.target_hidden_size != config.hidden_size


def _flag(settings: Settings, inner: Settings, key: str) -> bool:
    """Return a flag, which may stand at the top or in `eagle_config`."""
    if settings.has(key) and inner.has(key) and settings.flag(key) != inner.flag(key):
        raise settings.error(f"{key} says one thing, and another in eagle_config")
    return settings.flag(key, inner.flag(key, False))


def _feature_layers(settings: Settings, inner: Settings) -> tuple[int, ...] | None:
    """Return the layers whose outputs are fused, None where nothing is said."""
    outputs, inputs = inner.layers(_LAYERS), settings.layers(_LAYERS)
    shifted = None if inputs is None else tuple(index - 1 for index in inputs)
    if outputs is not None and shifted is not None and outputs != shifted:
        raise settings.error(
            f"{_LAYERS} is {list(inputs or ())} at the top, which counts layers by their input, and "
            f"{list(outputs)} in eagle_config, which counts by their output; they should differ by one"
        )
    layers = outputs if outputs is not None else shifted
    if layers is not None and min(layers) < 0:
        raise settings.error(f"{_LAYERS} takes the embedding for a feature, which is not supported")
    count = settings.whole("num_aux_hidden_states", inner.whole("num_aux_hidden_states", 3))
    named = settings.has("num_aux_hidden_states") or inner.has("num_aux_hidden_states")
    if named and count != (3 if layers is None else len(layers)):
        raise settings.error(
            f"num_aux_hidden_states is {count}, but {3 if layers is None else len(layers)} layers are named"
        )
    return layers
