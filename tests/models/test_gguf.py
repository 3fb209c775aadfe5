from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGUFWriter

from outrider.errors import LoadError, UnsupportedModelError
from outrider.models.base import Batch
from outrider.models.gguf_file import GGUFFile
from outrider.models.load import load_model
from outrider.models.names import from_gguf_name

TEXT = (7, 3, 250, 41, 41, 8, 99, 120, 5, 64, 200, 31)
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


def interleave(tensor: np.ndarray, heads: int) -> np.ndarray:
    """Reorder rows as llama.cpp's converter does for the llama architecture."""
    return tensor.reshape(heads, 2, -1, *tensor.shape[1:]).swapaxes(1, 2).reshape(tensor.shape)


def write_vocabulary(writer: GGUFWriter, backend: Any) -> None:
    tokens = [backend.id_to_token(token) for token in range(backend.get_vocab_size())]
    control = {"<s>", "</s>", "<|im_end|>"}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in control else 1 for token in tokens])
    writer.add_token_merges(["h e", "l l", "he ll", "hell o", "Ġ w", "Ġw o", "r l"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(True)


def write_gguf(path: Path, model: Any, backend: Any, arch: str, kind: gguf.GGMLQuantizationType) -> Path:
    config = model.config
    writer = GGUFWriter(path, arch)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    if getattr(config, "head_dim", None):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope["rope_type"] == "llama3":
        inv_freq = model.model.rotary_emb.inv_freq
        plain = rope["rope_theta"] ** (-torch.arange(0, 2 * len(inv_freq), 2) / (2 * len(inv_freq)))
        writer.add_tensor("rope_freqs.weight", (plain / inv_freq).float().numpy())
    write_vocabulary(writer, backend)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.float().numpy()
        if arch == "llama" and (".q_proj." in name or ".k_proj." in name):
            heads = config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads
            values = interleave(values, heads)
        stored = kind if values.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(
            names.get_name(name, try_suffixes=(".weight", ".bias")),
            gguf.quants.quantize(values, stored),
            raw_dtype=stored,
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def logits(target: Any, tokens: tuple[int, ...]) -> torch.Tensor:
    count = len(tokens)
    rows = tuple(range(count))
    batch = Batch(tokens, rows, (0,) * count, tuple(range(-1, count - 1)), rows)
    return target.forward(batch, [target.new_cache()])


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True, "attention_bias": True}),
        ("llama", {"head_dim": 16, "rope_parameters": LLAMA3}),
        ("llama", {"rope_parameters": LINEAR}),
        ("qwen2", {"rope_parameters": YARN}),
        ("qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
    ],
    ids=["llama", "tied, biases", "llama 3 rope", "linear rope", "qwen2, yarn", "qwen3, tied"],
)
def test_a_gguf_file_gives_the_logits_of_the_model_it_was_written_from(
    arch: str, options: dict[str, Any], tiny_model: Callable[..., Any], byte_level: Any, tmp_path: Path
) -> None:
    model = tiny_model(arch, **options)
    path = write_gguf(tmp_path / "model.gguf", model, byte_level, arch, gguf.GGMLQuantizationType.F32)
    loaded = load_model(path, weights="fp32", device="cpu")
    with torch.no_grad():
        expected = model(torch.tensor([TEXT])).logits[0]
    assert loaded.target.config.tied_embeddings == bool(options.get("tie_word_embeddings"))
    error = (logits(loaded.target, TEXT) - expected).abs().max() / expected.abs().max()
    assert error < 1e-4
    assert loaded.tokenizer.encode("hello world") == byte_level.encode("hello world").ids
    assert loaded.tokenizer.eos_ids == {1, 299}


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_1", "Q4_0"])
def test_tensors_are_dequantised_as_the_gguf_package_does_it(
    kind: str, tiny_model: Callable[..., Any], byte_level: Any, tmp_path: Path
) -> None:
    model = tiny_model("qwen2", hidden_size=64, intermediate_size=64)
    stored = gguf.GGMLQuantizationType[kind]
    file = GGUFFile(write_gguf(tmp_path / "model.gguf", model, byte_level, "qwen2", stored))
    weight = model.state_dict()["model.layers.1.mlp.up_proj.weight"].numpy()
    expected = gguf.quants.dequantize(gguf.quants.quantize(weight, stored), stored)
    found = file.tensor("blk.1.ffn_up.weight")
    assert found.dtype == torch.float32
    assert torch.equal(found, torch.from_numpy(expected))


def test_the_header_reads_as_the_gguf_package_reads_it(
    tiny_model: Callable[..., Any], byte_level: Any, tmp_path: Path
) -> None:
    path = write_gguf(
        tmp_path / "model.gguf", tiny_model("qwen3"), byte_level, "qwen3", gguf.GGMLQuantizationType.F16
    )
    file, reader = GGUFFile(path), gguf.GGUFReader(path)
    slow = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    assert file.metadata == slow
    places = {tensor.name: (tensor.data_offset, tensor.n_bytes) for tensor in reader.tensors}
    assert {name: (entry.offset, entry.nbytes) for name, entry in file.tensors.items()} == places


def test_every_tensor_name_of_the_decoder_has_its_gguf_name() -> None:
    for arch in (gguf.MODEL_ARCH.LLAMA, gguf.MODEL_ARCH.QWEN3):
        names = gguf.get_tensor_name_map(arch, 1)
        for kind in ("input_layernorm", "self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj"):
            name = f"model.layers.0.{kind}.weight"
            assert from_gguf_name(names.get_name(name, try_suffixes=(".weight",))) == name
    assert from_gguf_name("blk.0.attn_sinks.weight") == "blk.0.attn_sinks.weight"


@pytest.fixture
def small_file(tiny_model: Callable[..., Any], byte_level: Any, tmp_path: Path) -> Path:
    model = tiny_model("qwen2", num_hidden_layers=1)
    return write_gguf(tmp_path / "model.gguf", model, byte_level, "qwen2", gguf.GGMLQuantizationType.F32)


def test_a_file_cut_short_is_named_wherever_the_cut_lies(small_file: Path) -> None:
    data = small_file.read_bytes()
    for length in [len(data) - 1, len(data) // 2, *range(5, 6000, 307)]:
        small_file.write_bytes(data[:length])
        with pytest.raises(LoadError, match=r"model\.gguf"):
            load_model(small_file, device="cpu")


def test_a_file_that_is_no_gguf_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"PK\x03\x04 something else entirely")
    with pytest.raises(LoadError, match="not a GGUF file"):
        load_model(path)
    path.write_bytes(b"")
    with pytest.raises(LoadError, match="cannot read"):
        load_model(path)


def test_a_header_with_absurd_counts_is_damage_and_not_a_hang(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + b"\xff" * 64)
    with pytest.raises(LoadError, match="damaged"):
        load_model(path)


@pytest.mark.parametrize(("count", "length"), [(2**64 - 1, 0), (2, 2**64 - 1), (2, 2**62), (2, 40)])
def test_a_list_of_texts_that_runs_past_the_end_is_damage(count: int, length: int, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(
        b"GGUF" + struct.pack("<IQQQcIIQQ", 3, 0, 1, 1, b"k", 9, 8, count, length) + b"text".ljust(16)
    )
    with pytest.raises(LoadError, match="damaged"):
        load_model(path)


def test_a_tensor_that_begins_between_the_boundaries_of_the_file_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    header = b"GGUF" + struct.pack("<IQQQcIQIQ", 3, 1, 0, 1, b"t", 1, 4, 0, 36)
    path.write_bytes(header + bytes(200))
    with pytest.raises(LoadError, match=r"'t' begins at byte 36 .* multiple of the file's alignment of 32"):
        GGUFFile(path)
    path.write_bytes(header[:-8] + struct.pack("<Q", 32) + bytes(200))
    assert GGUFFile(path).tensors["t"].shape == (4,)


@pytest.mark.parametrize("kind", ["Q4_1", "Q4_K", "Q6_K"])
def test_blocks_of_garbage_are_read_without_a_word_on_stderr(kind: str, tmp_path: Path) -> None:
    path, chance = tmp_path / "model.gguf", np.random.default_rng(0)
    writer = GGUFWriter(path, "llama")
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    raw = chance.integers(0, 256, (64, 4 * size), np.uint8)
    raw[::2] |= 0x7C  # scales that are infinite or no numbers
    writer.add_tensor("t", raw, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file()
    writer.close()
    values = GGUFFile(path).tensor("t")  # warnings are errors here
    assert values.shape == (64, 4 * block)
    assert not values.isfinite().all()


def test_other_versions_are_refused(small_file: Path) -> None:
    data = small_file.read_bytes()
    small_file.write_bytes(data[:4] + (1).to_bytes(4, "little") + data[8:])
    with pytest.raises(UnsupportedModelError, match="version 1"):
        load_model(small_file)
    small_file.write_bytes(data[:4] + (3).to_bytes(4, "big") + data[8:])
    with pytest.raises(UnsupportedModelError, match="big-endian"):
        load_model(small_file)


def test_parts_of_a_split_file_are_refused_with_the_way_out(small_file: Path, tmp_path: Path) -> None:
    part = tmp_path / "model-00001-of-00002.gguf"
    small_file.rename(part)
    with pytest.raises(UnsupportedModelError, match="--merge"):
        load_model(part)
    with pytest.raises(UnsupportedModelError, match="joined first"):
        load_model("no-00001-of-00003.gguf")


def test_architectures_without_a_family_are_named(tmp_path: Path, byte_level: Any) -> None:
    writer = GGUFWriter(tmp_path / "model.gguf", "mamba")
    write_vocabulary(writer, byte_level)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UnsupportedModelError, match=r"'mamba'.*llama, qwen2, qwen3"):
        load_model(tmp_path / "model.gguf")


def rewrite(path: Path, old: bytes, new: bytes) -> None:
    assert len(old) == len(new)
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


def test_a_missing_tensor_and_an_unknown_one_are_named(small_file: Path) -> None:
    rewrite(small_file, b"blk.0.ffn_up.weight", b"blk.0.ffn_xx.weight")
    with pytest.raises(LoadError, match=r"lacks .*model\.layers\.0\.mlp\.up_proj\.weight"):
        load_model(small_file)
    rewrite(small_file, b"blk.0.ffn_xx.weight", b"blk.0.ffn_up.weight")
    rewrite(small_file, b"blk.0.attn_q.bias", b"blk.0.attn_x.bias")
    with pytest.raises(LoadError, match=r"'blk\.0\.attn_x\.bias'.* does not use"):
        load_model(small_file)
