"""EAGLE-3 heads as the speculators library writes them and vLLM serves them.

Schema: vllm-project/speculators (src/speculators/models/eagle3/config.py). Features are named by the layer
whose INPUT is taken, one more than the layer whose output it is. `transformer_layer_config` leaves out what
agrees with the defaults of its class in transformers. `norm_output` is feeding back the normed output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.errors import HeadError, UnsupportedModelError
from outrider.heads.eagle3 import Eagle3Config, Eagle3Head
from outrider.heads.formats.eagle3_tensors import EMBEDDING, eagle3_tensors, load_eagle3
from outrider.heads.formats.settings import Settings, layer_settings, read_layer
from outrider.heads.formats.spelling import ForTarget, HeadFiles, Spelling, Written

LAYER = "layers.0."
VERSION = "0.5.0"
"""Of the schema that is written."""
_LAYERS = "eagle_aux_hidden_state_layer_ids"
DEFAULTS: dict[str, Mapping[str, Any]] = {
    "llama": {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
    },
    "qwen3": {
        "vocab_size": 151936,
        "hidden_size": 4096,
        "intermediate_size": 22016,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "head_dim": 128,
        "max_position_embeddings": 32768,
    },
}


def _recognises(files: HeadFiles) -> bool:
    return "speculators_model_type" in files.config


def _load(files: HeadFiles) -> Eagle3Head:
    settings = Settings(files.config, str(files.directory / "config.json"))
    settings.refuse("speculators_model_type", "of the speculators' kinds only eagle3 is supported", "eagle3")
    inner = settings.table("transformer_layer_config")
    family = inner.text("model_type", "llama")
    if family not in DEFAULTS:
        raise UnsupportedModelError(
            f"{files.directory}: a layer of the family {family!r} is not supported, only "
            f"{' and '.join(DEFAULTS)} are"
        )
    layer = read_layer(inner, defaults=DEFAULTS[family], qk_norm=family == "qwen3")
    if not settings.has("norm_before_residual"):
        raise settings.error(
            "norm_before_residual is missing. speculators takes that for false and vLLM for true, so the "
            "head cannot be read rightly; add what it was trained with"
        )
    config = Eagle3Config(
        layer=layer,
        vocab_size=inner.whole("vocab_size", DEFAULTS[family]["vocab_size"]),
        draft_vocab_size=settings.whole("draft_vocab_size", 32000),
        target_hidden_size=settings.whole("target_hidden_size", layer.hidden_size),
        feature_layers=_outputs(settings),
        norm_before_residual=settings.flag("norm_before_residual"),
        feature_norms=settings.flag("fc_norm", False),
        input_norm=settings.flag("norm_before_fc", False),
        feed_normed=settings.flag("norm_output", False),
        own_embedding=EMBEDDING in files.tensors,
    )
    return load_eagle3(files, config, LAYER)


def _outputs(settings: Settings) -> tuple[int, ...] | None:
    inputs = settings.layers(_LAYERS)
    if inputs is None:
        return None
    if min(inputs) < 1:
        raise settings.error(f"{_LAYERS} takes the embedding for a feature, which is not supported")
    return tuple(index - 1 for index in inputs)


def _write(head: Eagle3Head, target: ForTarget) -> Written:
    config, layer = head.config, head.config.layer
    if not target.name:
        raise HeadError("a speculators file names the model that the head drafts for; say which (target)")
    if layer.qkv_bias != layer.output_bias:
        raise HeadError("a speculators file says of all four projections at once whether they have a bias")
    family = "qwen3" if layer.qk_norm else "llama"
    layers = config.feature_layers
    dtype = str(head.head.weight.dtype).removeprefix("torch.")
    written = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": VERSION,
        "model_type": "speculator_model",
        "transformer_layer_config": {
            "model_type": family,
            **layer_settings(layer),
            "vocab_size": config.vocab_size,
        },
        "draft_vocab_size": config.draft_vocab_size,
        "norm_before_residual": config.norm_before_residual,
        "target_hidden_size": None
        if config.target_hidden_size == config.hidden_size
        else config.target_hidden_size,
        _LAYERS: None if layers is None else [index + 1 for index in layers],
        "norm_before_fc": config.input_norm,
        "fc_norm": config.feature_norms,
        "norm_output": config.feed_normed,
        "embed_requires_grad": False,
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [
                {
                    "proposal_type": "greedy",
                    "speculative_tokens": 3,
                    "verifier_accept_k": 1,
                    "accept_tolerance": 0.0,
                }
            ],
            "verifier": {
                "name_or_path": target.name,
                "architectures": [target.architecture] if target.architecture else [],
            },
        },
    }
    return Written(written, eagle3_tensors(head, LAYER))


SPECULATORS = Spelling("speculators", "eagle3", _recognises, _load, _write)
