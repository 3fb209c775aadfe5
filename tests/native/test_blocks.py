"""Quantised blocks of a GGUF file: used as they are, every value what the `gguf` package makes of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from outrider.errors import OptionError, UnsupportedModelError
from outrider.loop.verify.pack import Part, pack
from outrider.models.decoder import Decoder
from outrider.models.load import load_model
from outrider.models.passes import Choice, build_decoder
from outrider.native import _core
from outrider.native.decoder import NativeDecoder
from outrider.types import DraftTree
from tiny import RandomSource, tiny_config
from tiny_blocks import HALVES, KINDS, block_config, block_source, random_blocks, write_blocks

pytestmark = pytest.mark.usefixtures("two_threads")

CPU = torch.device("cpu")


def values_of(matrix: _core.Matrix) -> np.ndarray:
    out = np.empty((matrix.outputs, matrix.inputs), np.float32)
    for output in range(matrix.outputs):
        matrix.read(output, out[output])
    return out


def same_bits(ours: np.ndarray, theirs: np.ndarray) -> bool:
    return np.array_equal(ours.view(np.uint32), theirs.astype(np.float32).view(np.uint32))


@pytest.mark.parametrize("outputs", [1, 16, 37])
@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_block_holds_the_values_that_the_gguf_package_reads(kind: str, outputs: int) -> None:
    chance = np.random.default_rng(outputs)
    raw = random_blocks(kind, (outputs, 768), chance)
    _, nbytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = raw.reshape(-1, nbytes)
    for at in HALVES[kind]:  # scales of every size and sign: 0, the smallest, the largest
        some = np.array([0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF], np.uint16)
        blocks[: len(some), at : at + 2] = some[: len(blocks), None].view(np.uint8)
    expected = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])
    for threads in (1, 3):
        packed = _core.pack_blocks(raw, outputs, 768, kind.lower(), None, threads)
        assert (packed.format, packed.outputs, packed.inputs) == (kind.lower(), outputs, 768)
        assert same_bits(values_of(packed), expected)
    order = chance.permutation(outputs).astype(np.int32)
    assert same_bits(values_of(_core.pack_blocks(raw, outputs, 768, kind.lower(), order)), expected[order])
    for to in ("fp32", "fp16", "bf16", "int8"):
        converted = _core.pack_blocks(raw, outputs, 768, kind.lower(), order, 2, to)
        plain = _core.pack(np.ascontiguousarray(expected[order]), to)
        assert np.array_equal(converted.panels(), plain.panels())
        assert converted.largest == plain.largest == np.abs(expected).max()


@pytest.fixture
def file_of(tmp_path: Path) -> Callable[..., Path]:
    def write(kind: str, kind_of: Callable[[str], str] | None = None, **options: object) -> Path:
        return write_blocks(
            tmp_path / f"{kind}.gguf", block_config(kind, **options), kind_of or (lambda _: kind)
        )

    return write


def largest_error(path: Path, kind: str) -> float:
    """Return the largest difference of any logit from the PyTorch pass, relative to the largest logit."""
    config, chance = block_config(kind), random.Random(3)
    prompts = [[chance.randrange(97) for _ in range(length)] for length in (3, 40, 150)]
    trees = [DraftTree((1, 2, 3, 4, 5), (-1, 0, -1, 2, 2)), DraftTree(), DraftTree((9, 9), (-1, -1))]
    batch = pack([Part(0, prompt, tree, True) for prompt, tree in zip(prompts, trees, strict=True)])
    logits = []
    for model in (
        Decoder(config, block_source(path, config), weights="file", device=CPU),
        NativeDecoder(config, block_source(path, config), weights="file"),
    ):
        logits.append(model.forward(batch, [model.new_cache() for _ in prompts]))
    return float((logits[0] - logits[1]).abs().max() / logits[0].abs().max())


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_blocks_gets_the_logits_of_its_dequantised_values(
    kind: str, file_of: Callable[..., Path]
) -> None:
    """Activations are rounded to 16 bits, 32 at a time: measured 1.0e-4 (Q5_0) to 5.3e-4 (Q4_1)."""
    assert largest_error(file_of(kind), kind) < 1e-3


def mixed(name: str) -> str:
    if "v_proj" in name or "down_proj" in name or "lm_head" in name:
        return "Q6_K"
    return {"q": "Q5_0", "k": "F16", "gate": "Q8_0", "up": "Q5_1"}.get(name.split(".")[-2][:-5], "Q4_K")


def test_types_may_differ_from_matrix_to_matrix(file_of: Callable[..., Path]) -> None:
    path = file_of("Q4_K", mixed)
    assert largest_error(path, "Q4_K") < 1e-3
    loaded = load_model(path, device="cpu", implementation="native")
    assert loaded.details["weights"] == "file (fp16, q4_k, q5_0, q5_1, q6_k, q8_0)"


@pytest.mark.parametrize("kind", ["Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS", "IQ2_S"])
def test_a_type_without_a_kernel_names_the_tensor_itself_and_the_way_out(
    kind: str, file_of: Callable[..., Path]
) -> None:
    path = file_of("Q4_K", lambda name: kind if name == "model.layers.1.mlp.up_proj.weight" else "Q4_K")
    with pytest.raises(
        UnsupportedModelError, match=rf"layers\.1\.mlp\.up_proj.* {kind},.*Q4_K.*fp16 instead"
    ):
        load_model(path, weights="file", device="cpu", implementation="native")
    assert load_model(path, device="cpu", implementation="native").details["weights"] == "fp16"  # auto


def test_a_type_that_nothing_reads_is_not_sent_to_fp16(file_of: Callable[..., Path]) -> None:
    path = file_of("Q4_K", lambda name: "Q8_K" if name == "model.layers.1.mlp.up_proj.weight" else "Q4_K")
    for weights in ("file", "fp16"):
        with pytest.raises(UnsupportedModelError, match=r"type Q8_K, which cannot be read; use a file with"):
            load_model(path, weights=weights, device="cpu", implementation="native")


@pytest.mark.parametrize("kind", ["Q4_1", "Q6_K"])
def test_auto_takes_blocks_as_they_are_and_everything_else_in_fp16(
    kind: str, file_of: Callable[..., Path]
) -> None:
    loaded = load_model(file_of(kind), device="cpu", implementation="native")
    assert loaded.details["weights"] == f"file ({kind.lower()})"
    plain = file_of(kind, lambda _: "F16")
    assert load_model(plain, device="cpu", implementation="native").details["weights"] == "fp16"


@pytest.mark.parametrize("implementation", ["auto", "native", "pytorch"])
def test_the_formats_of_a_file_are_refused_where_there_is_no_gguf_file(implementation: str) -> None:
    config = tiny_config()
    with pytest.raises(OptionError, match=r"formats of a GGUF file.*random weights is none.*fp16"):
        build_decoder(config, RandomSource(config), Choice("file", CPU, implementation))
