"""A head's files that are cut short, incomplete or contradictory say so; nothing is guessed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import written_heads as w
from outrider.errors import HeadError, LoadError, UnsupportedModelError
from outrider.heads.exchange import load_head

Tensors = dict[str, Tensor]
IDS = "eagle_aux_hidden_state_layer_ids"


def without(*names: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {name: tensor for name, tensor in tensors.items() if name not in names}


def changed(**changes: Tensor) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {**tensors, **{name.replace("__", "."): value for name, value in changes.items()}}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (without("fc.weight"), r"lacks the tensor 'fc\.weight' .*; it holds the tensors 'lm_head\.weight'"),
        (without("midlayer.hidden_norm.weight", "lm_head.weight"), "no head of a known spelling"),
        (changed(mask_hidden=torch.zeros(1, 1, 36)), r"holds the tensor 'mask_hidden' .*expected were .*'fc"),
        (changed(fc_norm__0__weight=torch.ones(12)), "does not use"),
        (changed(fc__weight=torch.zeros(12, 24)), r"'fc\.weight' has the shape \[12, 24\].*for \[12, 36\]"),
        (changed(lm_head__weight=torch.zeros(5, 12)), r"shape \[5, 12\].* calls for \[4, 12\]"),
        (changed(norm__weight=torch.ones(12, dtype=torch.int8)), "int8; only plain float"),
        (changed(model__fc__weight=torch.zeros(12, 36)), r"both 'model\.fc\.weight' and 'fc\.weight'"),
        (without("d2t", "t2d"), "drafts 4 of 30 tokens, but the file has neither d2t nor t2d"),
        (without("d2t"), "has t2d but no d2t"),
        (without("t2d"), "has d2t but no t2d"),
        (changed(d2t=torch.zeros(4, dtype=torch.int64)), "all zeros although .* 4 of 30 .* lost its map"),
        (changed(d2t=torch.tensor([0, 3, 4, 29])), "target tokens 0 to 32.* d2t holds offsets"),
        (changed(d2t=torch.tensor([-1, 2, 2, 26])), "target tokens -1 to 29"),
        (changed(d2t=torch.tensor([3, 2, 2, 25])), "out of order or twice"),
        (changed(d2t=torch.tensor([5, 2, 2, 26])), "out of order or twice"),
        (changed(d2t=torch.tensor([0, 1, 2, 26])), "t2d marks other target tokens"),
        (changed(d2t=torch.tensor([0, 2, 26])), r"d2t has the shape \[3\].*\[4\]"),
        (changed(d2t=torch.tensor([0.0, 2, 2, 26])), "whole numbers"),
        (changed(t2d=torch.ones(30, dtype=torch.bool)), "t2d marks 30 target tokens, but .* has 4"),
        (changed(t2d=torch.zeros(29, dtype=torch.bool)), r"t2d has the shape \[29\].*\[30\]"),
        (changed(t2d=torch.arange(30)), "yes or no"),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    change: Callable[[Tensors], Tensors], says: str, tmp_path: Path
) -> None:
    with pytest.raises(LoadError, match=says):
        load_head(w.write(tmp_path / "head", w.SPECFORGE, change(w.specforge_tensors())))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hidden_size": None}, "lacks 'hidden_size'"),
        ({"vocab_size": None}, "lacks 'vocab_size'"),
        ({"hidden_size": "12"}, "hidden_size must be a whole number from 1 to"),
        ({"hidden_size": 12.5}, "hidden_size must be a whole number from 1 to"),
        ({"intermediate_size": -1}, "intermediate_size must be a whole number"),
        ({"head_dim": 1 << 15}, "head_dim must be a whole number from 1 to 16384"),
        ({"hidden_size": 1 << 24, "num_attention_heads": 1 << 24, "head_dim": 16384}, "impossible sizes"),
        ({"rms_norm_eps": 0}, "rms_norm_eps must be a number above zero"),
        ({"rms_norm_eps": float("inf")}, "rms_norm_eps must be a number above zero"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps must be a number above zero"),
        ({"rope_theta": True}, "rope_theta must be a number above zero"),
        ({"num_attention_heads": 3}, "3 heads cannot share 2"),
        ({"num_hidden_layers": 2}, "num_hidden_layers is 2; only heads of one layer"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'; only silu"),
        ({"quantization_config": {"bits": 4}}, "quantised heads are not read"),
        ({"mlp_bias": True}, "bias in the feed-forward"),
        ({"bias": True}, "bias after the features are fused"),
        ({"tie_word_embeddings": True}, "whose output is their embedding"),
        ({"use_sliding_window": True}, "window of the text"),
        ({"layer_types": ["sliding_attention"]}, "window of the text"),
        ({"logit_scale": 0.5}, "scaled logits"),
        ({"use_aux_norm": True}, "write fc_norm for it"),
        ({"fc_norm": 1}, "fc_norm must be true or false, not 1"),
        ({"fc_norm": True, "norm_before_fc": True}, "not both ways"),
        ({"norm_output": "yes"}, "norm_output must be true or false"),
        ({"rope_scaling": [2.0]}, "rope_scaling must be a table"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "go stale"),
        ({"rope_scaling": {"mrope_section": [1, 1, 1], "type": "default"}}, "mrope"),
        ({"rope_scaling": {"full": {"rope_theta": 1.0}}}, "differ between layer types"),
        ({"draft_vocab_size": 31}, "31 tokens exceeds the target's 30"),
        ({"target_hidden_size": 8}, "cannot use the embedding of a target of width 8"),
        ({"eagle_config": [1]}, "eagle_config must be a table"),
        ({"eagle_config": {IDS: "all"}}, "must be a list of layer indices"),
        ({"eagle_config": {IDS: [1, 15.0]}}, "must be a list of layer indices"),
        ({"eagle_config": {IDS: [15, 1]}}, "rising layer indices"),
        ({"eagle_config": {IDS: [1, 15]}}, r"'fc\.weight' has the shape \[12, 36\].*\[12, 24\]"),
        ({"eagle_config": {"use_aux_hidden_state": False}}, "no features of inner layers"),
        ({"eagle_config": {"return_hidden_post_norm": True}}, "heads of this kind are not supported"),
        ({"eagle_config": {"fc_norm": True}, "fc_norm": False}, "another in eagle_config"),
        ({"eagle_config": {}, IDS: [0, 15, 28]}, "takes the embedding for a feature"),
        ({IDS: [1, 15, 28]}, "counts layers by their input, and .*counts by their output"),
        ({"num_aux_hidden_states": 4}, "num_aux_hidden_states is 4, but 3 layers are named"),
    ],
)
def test_configurations_that_make_no_sense_are_refused(
    changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    config = {key: value for key, value in {**w.SPECFORGE, **changes}.items() if value is not None}
    with pytest.raises(LoadError, match=says):
        load_head(w.write(tmp_path / "head", config, w.specforge_tensors()))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"norm_before_residual": None}, "speculators takes that for false and vLLM for true"),
        ({"speculators_model_type": "dflash"}, "only eagle3 is supported"),
        ({IDS: [0, 16, 29]}, "takes the embedding for a feature"),
        ({"transformer_layer_config": {**w.SIZES, "model_type": "gemma"}}, "family 'gemma'"),
        ({"transformer_layer_config": {**w.SIZES, "num_hidden_layers": None}}, "num_hidden_layers is 32"),
        ({"transformer_layer_config": {**w.SIZES, "attention_bias": True}}, r"lacks .*q_proj\.bias"),
        ({"transformer_layer_config": {**w.SIZES, "model_type": "qwen3"}}, r"lacks .*q_norm\.weight"),
        ({"draft_vocab_size": None}, "exceeds the target's 30"),
    ],
)
def test_speculators_configurations_that_make_no_sense_are_refused(
    changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    config = {key: value for key, value in {**w.SPECULATORS, **changes}.items() if value is not None}
    with pytest.raises(LoadError, match=says):
        load_head(w.write(tmp_path / "head", config, w.specforge_tensors("layers.0.")))


@pytest.mark.parametrize(
    ("config", "change", "says"),
    [
        ({**w.EAGLE, "bias": False}, changed(), "bias is False, but .* has the tensors"),
        ({**w.EAGLE, "bias": True}, without("fc.bias"), "bias is True, but .* lacks the tensors"),
        ({**w.EAGLE, "add_para_norm": True}, changed(), "add_para_norm is True, but .* lacks"),
        (w.EAGLE, changed(embedding_layernorm__weight=torch.ones(12)), r"lacks .*hidden_states_layernorm"),
        (
            w.EAGLE,
            changed(layers__0__input_layernorm__weight=torch.ones(12)),
            "input_layernorm.*does not use",
        ),
        ({**w.EAGLE_VLLM, "truncated_vocab_size": 9}, changed(), "truncated_vocab_size is 9"),
        ({"model_type": "eagle"}, changed(), "config.json: model lacks 'vocab_size'"),
    ],
)
def test_eagle_heads_that_contradict_themselves_are_refused(
    config: dict[str, Any], change: Callable[[Tensors], Tensors], says: str, tmp_path: Path
) -> None:
    with pytest.raises(LoadError, match=says):
        load_head(w.write(tmp_path / "head", config, change(w.eagle_tensors())))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (without("1.0.linear.bias"), r"lacks the tensor '1\.0\.linear\.bias'"),
        (without("0.1.weight"), r"lacks the output matrix '0\.1\.weight' of a head of 1 blocks"),
        (without("0.0.linear.weight", "0.0.linear.bias", "0.1.weight"), r"lacks the output matrix '0\.1"),
        (lambda _: {"x": torch.zeros(1)}, "no tensor of a Medusa head"),
        (changed(**{"999999999__1__weight": torch.zeros(30, 12)}), "lacks the output matrix"),
        (changed(**{"2__0__extra": torch.zeros(1)}), r"'2\.0\.extra'.*does not use"),
    ],
)
def test_medusa_files_that_do_not_fit_are_refused(
    change: Callable[[Tensors], Tensors], says: str, tmp_path: Path
) -> None:
    written = w.write(tmp_path / "head", w.MEDUSA, change(w.medusa_tensors()), "medusa_lm_head.pt")
    with pytest.raises(HeadError, match=says):
        load_head(written)


@pytest.mark.parametrize(
    ("changes", "extra", "says"),
    [
        ({"num_heads": None}, {}, "lacks 'num_heads'"),
        ({"num_heads": 3}, {}, r"lacks the tensors 'blocks\.2\.layers\.0\.weight'"),
        ({"num_heads": 1}, {}, r"'blocks\.1\.layers\.0\.weight'.*does not use"),
        ({"num_heads": 1 << 24}, {}, "more than the 4 tensors"),
        ({"medusa_fc_bias": True}, {}, r"lacks .*blocks\.0\.layers\.0\.bias"),
        ({"truncated_vocab_size": 5}, {}, "5 of 30 tokens, but .* lacks a token_map"),
        ({}, {"token_map": torch.arange(5)}, "30 of 30 tokens, but .* has a token_map"),
        ({"truncated_vocab_size": 5}, {"token_map": torch.tensor([1, 1, 2, 3, 4])}, "twice"),
        ({"truncated_vocab_size": 5}, {"token_map": torch.arange(4)}, "4 target_ids for 5 draft tokens"),
        ({"truncated_vocab_size": 5}, {"token_map": torch.arange(5) + 26}, "26 to 30, but the target has"),
    ],
)
def test_medusa_heads_of_vllm_that_do_not_fit_are_refused(
    changes: dict[str, Any], extra: Tensors, says: str, tmp_path: Path
) -> None:
    config = {key: value for key, value in {**w.MEDUSA_VLLM, **changes}.items() if value is not None}
    with pytest.raises(HeadError, match=says):
        load_head(w.write(tmp_path / "head", config, {**w.medusa_vllm_tensors(), **extra}))


@pytest.mark.parametrize("weights", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.999])
def test_a_file_cut_short_is_never_half_a_head(weights: str, share: float, tmp_path: Path) -> None:
    directory = w.write(tmp_path / "head", w.SPECFORGE, w.specforge_tensors(), weights)
    data = (directory / weights).read_bytes()
    (directory / weights).write_bytes(data[: int(share * len(data))])
    with pytest.raises(LoadError, match="damaged"):
        load_head(directory)


@pytest.mark.parametrize("weights", ["medusa_lm_head.safetensors", "medusa_lm_head.pt"])
def test_a_medusa_file_of_something_else_is_damaged(weights: str, tmp_path: Path) -> None:
    directory = w.write(tmp_path / "head", w.MEDUSA, w.medusa_tensors(), weights)
    (directory / weights).write_bytes(b"not found " * 50)
    with pytest.raises(LoadError, match="damaged"):
        load_head(directory)


class Evil:
    """What a pickle can hold: a call that is made when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("ran"),))


def test_a_pickle_that_would_run_code_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    directory = w.write(tmp_path / "head", w.MEDUSA, {}, "medusa_lm_head.pt")
    torch.save({"0.0.linear.weight": Evil()}, directory / "medusa_lm_head.pt")
    with pytest.raises(HeadError, match="not read because it could run code"):
        load_head(directory)
    (directory / "medusa_lm_head.pt").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(HeadError, match="not read because it could run code"):
        load_head(directory)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [[torch.zeros(1)], {"a": 1}, {1: torch.zeros(1)}])
def test_a_pickle_of_anything_but_tensors_by_name_is_refused(content: object, tmp_path: Path) -> None:
    directory = w.write(tmp_path / "head", w.MEDUSA, {}, "medusa_lm_head.pt")
    torch.save(content, directory / "medusa_lm_head.pt")
    with pytest.raises(HeadError, match="table of tensors by name"):
        load_head(directory)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must hold a JSON object, not list"),
        ("\udcff", "not valid JSON"),
        (None, "is missing"),
    ],
)
def test_a_configuration_that_is_none_is_refused(text: str | None, says: str, tmp_path: Path) -> None:
    directory = w.write(tmp_path / "head", w.SPECFORGE, w.specforge_tensors())
    path = directory / "config.json"
    path.unlink()
    if text is not None:
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(LoadError, match=says):
        load_head(directory)


def test_a_place_without_a_head_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(HeadError, match="nowhere does not exist; give the directory"):
        load_head(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadError, match="is a file; give the directory"):
        load_head(tmp_path / "file")
    with pytest.raises(HeadError, match=r"holds no head: none of model\.safetensors"):
        load_head(tmp_path)
    whole = {"model.embed_tokens.weight": torch.zeros(30, 12)}
    with pytest.raises(
        HeadError, match=r"known spelling .*model_type 'llama'.*'model\.embed_tokens\.weight'"
    ):
        load_head(w.write(tmp_path / "model", {"model_type": "llama"}, whole))


def test_half_of_a_speculators_class_is_refused_as_unsupported(tmp_path: Path) -> None:
    config = {**w.SPECULATORS, "speculators_model_type": "mtp"}
    with pytest.raises(UnsupportedModelError, match="is 'mtp'"):
        load_head(w.write(tmp_path / "head", config, {}))
