"""Files that other programs write are read as those programs mean them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import written_heads as w
from outrider.heads.eagle import EagleHead
from outrider.heads.eagle3 import Eagle3Head
from outrider.heads.exchange import load_head
from outrider.heads.formats.settings import Settings, read_layer
from outrider.heads.formats.speculators import DEFAULTS
from outrider.heads.medusa import MedusaHeads

EAGLE3_NAMES = {
    "fc.weight": "fusion.weight",
    "norm.weight": "norm.weight",
    "lm_head.weight": "head.weight",
    "LAYER.hidden_norm.weight": "hidden_norm.weight",
    "LAYER.input_layernorm.weight": "embedding_norm.weight",
    "LAYER.post_attention_layernorm.weight": "feed_forward_norm.weight",
    "LAYER.self_attn.q_proj.weight": "attention.query.weight",
    "LAYER.self_attn.k_proj.weight": "attention.key.weight",
    "LAYER.self_attn.v_proj.weight": "attention.value.weight",
    "LAYER.self_attn.o_proj.weight": "attention.output.weight",
    "LAYER.mlp.gate_proj.weight": "feed_forward.gate.weight",
    "LAYER.mlp.up_proj.weight": "feed_forward.up.weight",
    "LAYER.mlp.down_proj.weight": "feed_forward.down.weight",
}


def check_eagle3(head: Eagle3Head, tensors: dict[str, torch.Tensor], layer: str) -> None:
    state = head.state_dict()
    for name, own in EAGLE3_NAMES.items():
        assert torch.equal(state[own], tensors[name.replace("LAYER.", layer)]), name
    assert head.target_ids.tolist() == [0, 3, 4, 29]


@pytest.mark.parametrize("weights", ["model.safetensors", "pytorch_model.bin"])
def test_a_head_of_specforge(weights: str, tmp_path: Path) -> None:
    tensors = w.specforge_tensors()
    head, spelling, notes = load_head(w.write(tmp_path / "head", w.SPECFORGE, tensors, weights))
    assert isinstance(head, Eagle3Head)
    assert (spelling, notes) == ("specforge", ())
    check_eagle3(head, tensors, "midlayer.")
    config, layer = head.config, head.config.layer
    assert config.feature_layers == (1, 15, 28), "SpecForge names the layer whose output is taken"
    assert (config.vocab_size, config.draft_vocab_size, config.target_hidden_size) == (30, 4, 12)
    assert not any((config.norm_before_residual, config.feature_norms, config.input_norm, config.feed_normed))
    assert not config.own_embedding
    assert (layer.heads, layer.kv_heads, layer.head_dim, layer.intermediate_size) == (4, 2, 6, 20)
    assert (layer.norm_eps, layer.rope_theta, layer.rope_scaling) == (1e-5, 5000.0, None)
    assert layer.context_limit == 512


def test_what_the_original_code_leaves_unsaid_is_taken_as_it_takes_it(tmp_path: Path) -> None:
    """No layers named, no vocabulary of its own, no head size, as many key heads as heads."""
    left_out = ("eagle_config", "draft_vocab_size", "head_dim", "num_key_value_heads", "rope_theta")
    config = {key: value for key, value in w.SPECFORGE.items() if key not in left_out}
    config["num_attention_heads"] = 2
    tensors = w.specforge_tensors()
    del tensors["d2t"], tensors["t2d"]
    for part in ("q_proj", "k_proj", "v_proj"):
        tensors[f"midlayer.self_attn.{part}.weight"] = torch.randn(12, 24)
    tensors["midlayer.self_attn.o_proj.weight"] = torch.randn(12, 12)
    tensors["lm_head.weight"] = torch.randn(30, 12)
    tensors["embed_tokens.weight"] = torch.randn(30, 12)
    head = load_head(w.write(tmp_path / "head", config, tensors)).head
    assert isinstance(head, Eagle3Head)
    assert head.config.feature_layers is None
    assert head.config.layers_of(32) == (1, 15, 28)
    assert head.target_ids.tolist() == list(range(30))
    assert (head.config.layer.head_dim, head.config.layer.kv_heads) == (6, 2)
    assert head.config.layer.rope_theta == 10000.0
    assert torch.equal(head.embed(torch.arange(30)), tensors["embed_tokens.weight"])


def test_zeros_for_a_map_of_the_whole_vocabulary_are_no_map(tmp_path: Path) -> None:
    tensors = {**w.specforge_tensors(), "lm_head.weight": torch.randn(30, 12)}
    tensors |= {"d2t": torch.zeros(30, dtype=torch.int64), "t2d": torch.zeros(30, dtype=torch.bool)}
    head = load_head(w.write(tmp_path / "head", {**w.SPECFORGE, "draft_vocab_size": None}, tensors)).head
    assert isinstance(head, Eagle3Head)
    assert head.target_ids.tolist() == list(range(30))


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_a_scaled_rope_is_read_in_all_its_words(key: str, tmp_path: Path) -> None:
    scaling = {"type": "linear", "factor": 4.0, "rope_theta": 700.0}
    config = {**w.SPECFORGE, key: scaling}
    layer = load_head(w.write(tmp_path / "head", config, w.specforge_tensors())).head.config.layer  # type: ignore[union-attr]
    assert layer.rope_scaling == {"rope_type": "linear", "factor": 4.0}
    assert layer.rope_theta == 700.0
    assert layer.rope.inv_freq[0] == pytest.approx(0.25)


@pytest.mark.parametrize("prefix", ["model.", "layers.0."])
def test_other_names_of_the_same_tensors(prefix: str, tmp_path: Path) -> None:
    """Some programs put `model.` before all but the head; newer ones call the layer `layers.0`."""
    tensors = w.specforge_tensors()
    if prefix == "model.":
        renamed = {
            f"model.{n}" if n not in ("d2t", "t2d", "lm_head.weight") else n: t for n, t in tensors.items()
        }
    else:
        renamed = {name.replace("midlayer.", prefix): tensor for name, tensor in tensors.items()}
    head, spelling, notes = load_head(w.write(tmp_path / "head", w.SPECFORGE, renamed))
    assert isinstance(head, Eagle3Head)
    assert spelling == "specforge"
    assert len(notes) == (prefix == "model.")
    check_eagle3(head, tensors, "midlayer.")


def test_a_bias_that_this_spelling_never_has_is_noted(tmp_path: Path) -> None:
    """Configurations made from a target's keep its `attention_bias`; the tensors of one are not there."""
    written = w.write(tmp_path / "head", {**w.SPECFORGE, "attention_bias": True}, w.specforge_tensors())
    head, _, notes = load_head(written)
    assert isinstance(head, Eagle3Head)
    assert not head.config.layer.qkv_bias
    assert notes == ("attention_bias is set, but heads of this spelling never have one",)


def test_shards_are_read_as_one(tmp_path: Path) -> None:
    tensors = w.specforge_tensors()
    directory = w.write(tmp_path / "head", w.SPECFORGE, {})
    (directory / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"one.safetensors": names[:7], "two.safetensors": names[7:]}
    for file, held in shards.items():
        save_file({name: tensors[name] for name in held}, directory / file)
    placed = {name: file for file, held in shards.items() for name in held}
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    head = load_head(directory).head
    assert isinstance(head, Eagle3Head)
    check_eagle3(head, tensors, "midlayer.")


def test_a_list_of_layers_at_the_top_counts_inputs_and_must_agree(tmp_path: Path) -> None:
    key = "eagle_aux_hidden_state_layer_ids"
    top = {**w.SPECFORGE, "eagle_config": {}, key: [2, 16, 29]}
    both = {**w.SPECFORGE, key: [2, 16, 29]}
    for name, config in (("top", top), ("both", both)):
        head = load_head(w.write(tmp_path / name, config, w.specforge_tensors())).head
        assert isinstance(head, Eagle3Head)
        assert head.config.feature_layers == (1, 15, 28)


def test_a_head_of_eagle_3_1(tmp_path: Path) -> None:
    tensors = {**w.specforge_tensors(), **{f"fc_norm.{i}.weight": torch.randn(12) for i in range(3)}}
    config = {**w.SPECFORGE, "fc_norm": True, "norm_output": True}
    head, _, notes = load_head(w.write(tmp_path / "head", config, tensors))
    assert isinstance(head, Eagle3Head)
    assert (head.config.feature_norms, head.config.feed_normed) == (True, True)
    assert torch.equal(head.state_dict()["feature_norms.2.weight"], tensors["fc_norm.2.weight"])
    assert len(notes) == 1
    assert notes[0].startswith("norm_output is true, read as serving engines read it")


def test_a_head_of_speculators(tmp_path: Path) -> None:
    tensors = w.specforge_tensors("layers.0.")
    head, spelling, notes = load_head(w.write(tmp_path / "head", w.SPECULATORS, tensors))
    assert isinstance(head, Eagle3Head)
    assert (spelling, notes) == ("speculators", ())
    check_eagle3(head, tensors, "layers.0.")
    assert head.config.feature_layers == (1, 15, 28), "speculators names the layer whose input is taken"
    assert head.config.norm_before_residual
    assert not head.config.feed_normed


def test_what_speculators_leaves_out_is_the_default_of_the_layers_class() -> None:
    """A layer 4096 wide is not said to be so wide."""
    transformers = pytest.importorskip("transformers")
    for family, cls in (("llama", transformers.LlamaConfig), ("qwen3", transformers.Qwen3Config)):
        layer = read_layer(Settings({"num_hidden_layers": 1}, "config.json"), defaults=DEFAULTS[family])
        full = cls()
        assert layer.hidden_size == full.hidden_size
        assert layer.intermediate_size == full.intermediate_size
        assert layer.heads == full.num_attention_heads
        assert layer.kv_heads == (full.num_key_value_heads or full.num_attention_heads)
        assert layer.head_dim == (full.head_dim or full.hidden_size // full.num_attention_heads)
        assert layer.context_limit == full.max_position_embeddings
        assert layer.norm_eps == full.rms_norm_eps
        assert DEFAULTS[family]["vocab_size"] == full.vocab_size


def test_a_qwen3_layer_of_speculators_norms_queries_and_keys(tmp_path: Path) -> None:
    layer = {"model_type": "qwen3", **w.SIZES}
    tensors = w.specforge_tensors("layers.0.")
    tensors |= {f"layers.0.self_attn.{part}_norm.weight": torch.randn(6) for part in "qk"}
    tensors |= {"input_norm.weight": torch.randn(36)}
    config = {**w.SPECULATORS, "transformer_layer_config": layer, "norm_before_fc": True, "norm_output": True}
    head = load_head(w.write(tmp_path / "head", config, tensors)).head
    assert isinstance(head, Eagle3Head)
    assert head.config.layer.qk_norm
    assert head.config.input_norm
    assert head.config.feed_normed
    state = head.state_dict()
    assert torch.equal(state["attention.key_norm.weight"], tensors["layers.0.self_attn.k_norm.weight"])
    assert torch.equal(state["input_norm.weight"], tensors["input_norm.weight"])


def test_a_speculators_head_for_a_target_of_another_width(tmp_path: Path) -> None:
    tensors = {**w.specforge_tensors("layers.0."), "fc.weight": torch.randn(12, 24)}
    tensors["embed_tokens.weight"] = torch.randn(30, 12)
    head = load_head(w.write(tmp_path / "head", {**w.SPECULATORS, "target_hidden_size": 8}, tensors)).head
    assert isinstance(head, Eagle3Head)
    assert (head.config.hidden_size, head.config.target_hidden_size) == (12, 8)


@pytest.mark.parametrize(("config", "spelling"), [(w.EAGLE, "eagle"), (w.EAGLE_VLLM, "eagle-vllm")])
def test_a_head_of_eagle_1(config: dict[str, Any], spelling: str, tmp_path: Path) -> None:
    tensors = w.eagle_tensors()
    if spelling == "eagle-vllm":
        del tensors["fc.bias"], tensors["embed_tokens.weight"]
    loaded = load_head(w.write(tmp_path / "head", config, tensors, "pytorch_model.bin"))
    head = loaded.head
    assert isinstance(head, EagleHead)
    assert loaded.spelling == spelling
    assert head.config.fusion_bias == head.config.own_embedding == (spelling == "eagle")
    assert (head.config.layer.norm_eps, head.config.layer.rope_theta) == (1e-5, 5000.0)
    state = head.state_dict()
    assert torch.equal(state["fusion.weight"], tensors["fc.weight"])
    for part, own in (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("o_proj", "output")):
        assert torch.equal(state[f"attention.{own}.weight"], tensors[f"layers.0.self_attn.{part}.weight"])
    for part in ("gate", "up", "down"):
        assert torch.equal(state[f"feed_forward.{part}.weight"], tensors[f"layers.0.mlp.{part}_proj.weight"])
    norm = tensors["layers.0.post_attention_layernorm.weight"]
    assert torch.equal(state["feed_forward_norm.weight"], norm)
    if spelling == "eagle":
        assert torch.equal(state["fusion.bias"], tensors["fc.bias"])
        assert torch.equal(state["embedding.weight"], tensors["embed_tokens.weight"])


def test_an_eagle_head_with_biases_and_one_with_the_norms_of_hass(tmp_path: Path) -> None:
    tensors = w.eagle_tensors()
    for part, size in (("q", 24), ("k", 12), ("v", 12)):
        tensors[f"layers.0.self_attn.{part}_proj.bias"] = torch.randn(size)
    tensors["layers.0.self_attn.rotary_emb.inv_freq"] = torch.randn(3)  # says nothing new
    head = load_head(w.write(tmp_path / "bias", {**w.EAGLE, "qkv_bias": True}, tensors)).head
    assert torch.equal(head.state_dict()["attention.value.bias"], tensors["layers.0.self_attn.v_proj.bias"])
    tensors = {**w.eagle_tensors(), "embedding_layernorm.weight": torch.randn(12)}
    tensors["hidden_states_layernorm.weight"] = torch.randn(12)
    head = load_head(w.write(tmp_path / "norms", w.EAGLE, tensors)).head
    assert torch.equal(head.state_dict()["feature_norm.weight"], tensors["hidden_states_layernorm.weight"])


@pytest.mark.parametrize(
    ("weights", "spelling"), [("medusa_lm_head.safetensors", "medusa"), ("medusa_lm_head.pt", "medusa-pt")]
)
@pytest.mark.parametrize("prefix", ["", "medusa_head."])
def test_heads_of_medusa(weights: str, spelling: str, prefix: str, tmp_path: Path) -> None:
    """Published configurations speak of two heads where the file holds more."""
    tensors = w.medusa_tensors(heads=3)
    renamed = {prefix + name: tensor for name, tensor in tensors.items()}
    heads, found, notes = load_head(w.write(tmp_path / "head", w.MEDUSA, renamed, weights))
    assert isinstance(heads, MedusaHeads)
    assert found == spelling
    assert "config.json speaks of 2 heads; the file holds 3, and all are used" in notes
    assert (heads.config.heads, heads.config.hidden_size, heads.config.vocab_size) == (3, 12, 30)
    hidden = torch.randn(4, 12)
    for i in range(3):
        inner = hidden @ tensors[f"{i}.0.linear.weight"].T + tensors[f"{i}.0.linear.bias"]
        expected = (hidden + inner * inner.sigmoid()) @ tensors[f"{i}.1.weight"].T
        torch.testing.assert_close(heads(hidden)[i], expected, atol=1e-4, rtol=1e-4)


def test_heads_of_medusa_for_vllm(tmp_path: Path) -> None:
    tensors = w.medusa_vllm_tensors()
    heads, spelling, notes = load_head(w.write(tmp_path / "head", w.MEDUSA_VLLM, tensors))
    assert isinstance(heads, MedusaHeads)
    assert (spelling, notes) == ("medusa-vllm", ())
    assert not heads.config.block_bias
    state = heads.state_dict()
    assert torch.equal(state["blocks.1.0.weight"], tensors["blocks.1.layers.0.weight"])
    assert torch.equal(state["outputs.1.weight"], tensors["lm_heads.1.weight"])


@pytest.mark.parametrize("rows", [5, 30])
def test_a_draft_vocabulary_of_vllm_is_kept_in_its_order(rows: int, tmp_path: Path) -> None:
    """Its output matrices may still hold all tokens; vLLM cuts them when it reads them, and so do we."""
    token_map = torch.tensor([7, 2, 29, 0, 11])
    tensors = {f"medusa_heads.{n}": t for n, t in w.medusa_vllm_tensors(rows).items()}
    config = {**w.MEDUSA_VLLM, "truncated_vocab_size": 5}
    written = w.write(tmp_path / "head", config, {**tensors, "medusa_heads.token_map": token_map})
    heads, _, notes = load_head(written)
    assert isinstance(heads, MedusaHeads)
    assert heads.target_ids is not None
    assert heads.target_ids.tolist() == token_map.tolist()
    matrix = tensors["medusa_heads.lm_heads.0.weight"]
    assert torch.equal(heads.state_dict()["outputs.0.weight"], matrix if rows == 5 else matrix[token_map])
    assert len(notes) == (1 if rows == 5 else 3)


@pytest.mark.parametrize("name", ["lm_head.weight", "lm_heads.0.weight"])
def test_one_output_matrix_for_all_medusa_heads(name: str, tmp_path: Path) -> None:
    tensors = w.medusa_vllm_tensors()
    matrix = tensors.pop("lm_heads.0.weight")
    del tensors["lm_heads.1.weight"]
    config = {**w.MEDUSA_VLLM, "original_lm_head": True}
    heads = load_head(w.write(tmp_path / "head", config, {**tensors, name: matrix})).head
    assert isinstance(heads, MedusaHeads)
    assert heads.config.shared_output
    assert torch.equal(heads.state_dict()["outputs.0.weight"], matrix)
