from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from outrider.errors import LoadError, UnsupportedModelError
from outrider.models.base import Batch
from outrider.models.config import DecoderConfig
from outrider.models.load import families, load_model

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
LINEAR = {"rope_type": "linear", "rope_theta": 300.0, "factor": 3.0}

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama tied": ("llama", {"tie_word_embeddings": True}),
    "llama with biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama with its own head size": ("llama", {"head_dim": 16}),
    "llama without grouped heads": ("llama", {"num_key_value_heads": None}),
    "llama 3 rope": ("llama", {"rope_parameters": LLAMA3}),
    "linear rope": ("llama", {"rope_parameters": LINEAR}),
    "yarn rope": ("llama", {"rope_parameters": YARN}),
    "yarn with its own scale": ("qwen2", {"rope_parameters": {**YARN, "attention_factor": 1.3}}),
    "yarn, mscale": ("qwen2", {"rope_parameters": {**YARN, "mscale": 0.7, "mscale_all_dim": 1.1}}),
    "yarn, not truncated": ("qwen3", {"rope_parameters": {**YARN, "truncate": False, "beta_fast": 16}}),
    "mistral": ("mistral", {"sliding_window": None}),
    "mistral with a window": ("mistral", {"sliding_window": 5}),
    "qwen2": ("qwen2", {}),
    "qwen2 tied": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2 with windows": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "qwen3 with its default head size": ("qwen3", {}),
    "qwen3 with biases": ("qwen3", {"head_dim": 16, "attention_bias": True, "tie_word_embeddings": True}),
    "qwen3 with layer types": (
        "qwen3",
        {
            "head_dim": 16,
            "use_sliding_window": True,
            "sliding_window": 3,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
}
TEXT = (7, 3, 250, 41, 41, 8, 99, 120, 5, 64, 200, 31)


def from_hf(config: Any) -> DecoderConfig:
    values = config if isinstance(config, dict) else config.to_dict()
    family = next(family for family in families() if values["model_type"] in family.model_types)
    return family.from_hf(values)


def logits(target: Any, tokens: tuple[int, ...]) -> torch.Tensor:
    count = len(tokens)
    rows = tuple(range(count))
    batch = Batch(tokens, rows, (0,) * count, tuple(range(-1, count - 1)), rows)
    return target.forward(batch, [target.new_cache()])


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_saved_model_gives_the_logits_that_transformers_gives(
    variant: str, tiny_model: Callable[..., Any], save: Callable[[Any, Path], Path], tmp_path: Path
) -> None:
    model_type, options = VARIANTS[variant]
    model = tiny_model(model_type, **options)
    loaded = load_model(save(model, tmp_path / "model"), weights="fp32", device="cpu")
    with torch.no_grad():
        expected = model(torch.tensor([TEXT])).logits[0]
    assert loaded.details["architecture"] == model_type
    assert loaded.details["parameters"] == sum(p.numel() for p in model.parameters())
    assert relative_error(logits(loaded.target, TEXT), expected) < 1e-4


@pytest.mark.parametrize("variant", VARIANTS)
def test_rotary_frequencies_are_those_of_transformers_bit_for_bit(
    variant: str, tiny_model: Callable[..., Any]
) -> None:
    model_type, options = VARIANTS[variant]
    model = tiny_model(model_type, **options)
    rotary = model.model.rotary_emb
    config = from_hf(model.config)
    assert torch.equal(torch.tensor(config.rope.inv_freq), rotary.inv_freq)
    assert config.rope.scale == pytest.approx(rotary.attention_scaling, rel=1e-12)


@pytest.mark.parametrize("parameters", [LLAMA3, YARN, LINEAR])
def test_the_older_spelling_of_rotary_parameters_means_the_same(
    parameters: dict[str, Any], tiny_config: Callable[..., Any]
) -> None:
    values = tiny_config("llama", rope_parameters=dict(parameters)).to_dict()
    older = {key: value for key, value in values.items() if key != "rope_parameters"}
    scaling = {key: value for key, value in parameters.items() if key != "rope_theta"}
    older["rope_theta"] = parameters["rope_theta"]
    older["rope_scaling"] = {**scaling, "type": scaling.pop("rope_type")}
    assert from_hf(older) == from_hf(values)


def test_a_model_in_memory_runs_on_the_lean_decoder(tiny_model: Callable[..., Any], byte_level: Any) -> None:
    transformers = pytest.importorskip("transformers")
    model = tiny_model("qwen3", head_dim=16)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=byte_level, eos_token="</s>")
    loaded = load_model(model, tokenizer=tokenizer, weights="fp32", device="cpu")
    with torch.no_grad():
        expected = model(torch.tensor([TEXT])).logits[0]
    assert loaded.details["architecture"] == "qwen3"
    assert relative_error(logits(loaded.target, TEXT), expected) < 1e-4
    assert loaded.tokenizer.eos_ids == {1, 299}


def test_keys_left_out_of_a_configuration_take_the_defaults_of_transformers(
    tiny_config: Callable[..., Any],
) -> None:
    for model_type in ("llama", "mistral", "qwen2", "qwen3"):
        heads = {"num_attention_heads": 64, "hidden_size": 128}
        full = tiny_config(model_type, **heads)
        kept = {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"}
        sparse = {
            key: value for key, value in full.to_dict().items() if key in {*kept, "num_attention_heads"}
        }
        assert from_hf(sparse) == from_hf(type(full)(**sparse))


def test_a_window_counts_the_row_itself(tiny_config: Callable[..., Any]) -> None:
    config = from_hf(tiny_config("mistral", sliding_window=5))
    assert config.windows == (5, 5)
    assert from_hf(tiny_config("qwen2", sliding_window=5)).windows == ()


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"hidden_act": "gelu"}, UnsupportedModelError, "hidden_act 'gelu'"),
        ({"quantization_config": {"bits": 4}}, UnsupportedModelError, "quantised"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, UnsupportedModelError, "dynamic"),
        ({"rope_parameters": {"rope_type": "longrope"}}, UnsupportedModelError, "longrope"),
        ({"rope_parameters": {"rope_type": "spiral"}}, UnsupportedModelError, "spiral"),
        ({"partial_rotary_factor": 0.5}, UnsupportedModelError, "partial_rotary_factor"),
        (
            {
                "rope_parameters": {
                    "full_attention": {"rope_theta": 1.0},
                    "sliding_attention": {"rope_theta": 2.0},
                }
            },
            UnsupportedModelError,
            "differ between layer types",
        ),
        ({"rope_parameters": {"rope_type": "linear"}}, LoadError, "factor"),
        ({"rope_parameters": {"rope_theta": float("nan")}}, LoadError, "rope_theta"),
        ({"num_hidden_layers": 0}, LoadError, "num_hidden_layers"),
        ({"num_hidden_layers": 1 << 40}, LoadError, "num_hidden_layers must be at most"),
        ({"num_key_value_heads": 3}, LoadError, "4 heads cannot share 3"),
        ({"vocab_size": "many"}, LoadError, "vocab_size"),
        ({"hidden_size": 31.5}, LoadError, "whole number"),
        ({"rms_norm_eps": float("inf")}, LoadError, "rms_norm_eps"),
        ({"head_dim": 7}, LoadError, "even head size"),
    ],
)
def test_what_the_decoder_cannot_run_is_refused_by_name(
    change: dict[str, Any], error: type[LoadError], says: str, tiny_config: Callable[..., Any]
) -> None:
    values = tiny_config("llama").to_dict()
    with pytest.raises(error, match=says):
        from_hf({**values, **change})


def test_rotary_parameters_equal_for_all_layer_types_are_one_set(tiny_config: Callable[..., Any]) -> None:
    values = tiny_config("qwen3").to_dict()
    nested = {**values, "rope_parameters": {"full_attention": {"rope_theta": 77.0}}}
    flat = {**values, "rope_parameters": {"rope_theta": 77.0}}
    assert from_hf(nested) == from_hf(flat)


def test_layer_types_that_contradict_the_window_are_refused(tiny_config: Callable[..., Any]) -> None:
    values = tiny_config("qwen2").to_dict()
    types = ["sliding_attention", "full_attention"]
    with pytest.raises(LoadError, match="use_sliding_window"):
        from_hf({**values, "layer_types": types})
    with pytest.raises(UnsupportedModelError, match="linear_attention"):
        from_hf({**values, "layer_types": ["linear_attention", "full_attention"]})


def test_an_output_head_of_its_own_wins_over_a_configuration_that_ties_it(
    tiny_model: Callable[..., Any], byte_level: Any
) -> None:
    transformers = pytest.importorskip("transformers")
    model = tiny_model("llama")
    model.config.tie_word_embeddings = True
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=byte_level)
    loaded = load_model(model, tokenizer=tokenizer, weights="fp32", device="cpu")
    assert loaded.target.config == replace(from_hf(model.config), tied_embeddings=False)
    assert any("output head" in notice for notice in loaded.details["notices"])
