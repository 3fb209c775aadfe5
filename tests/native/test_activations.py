"""Activations of 8 bits: a coarser rounding of the same sums, which every instruction set rounds alike."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

import pytest
import torch

from outrider.errors import CapabilityError, OptionError, UnknownNameError
from outrider.loop.verify.pack import Part, pack
from outrider.models.base import Batch
from outrider.models.decoder import Decoder
from outrider.models.load import load_model
from outrider.models.passes import Choice, build_decoder, check_adapter
from outrider.native.decoder import NativeDecoder
from outrider.pricing import measured_latency
from outrider.types import DraftTree
from tiny import RandomSource, tiny_config
from tiny_blocks import KINDS, block_config, block_source, write_blocks

pytestmark = pytest.mark.usefixtures("two_threads")

CPU = torch.device("cpu")
BOTH = ("int16", "int8")


def ragged() -> Batch:
    chance = random.Random(3)
    prompts = [[chance.randrange(97) for _ in range(length)] for length in (3, 40, 150)]
    trees = [DraftTree((1, 2, 3, 4, 5), (-1, 0, -1, 2, 2)), DraftTree(), DraftTree((9, 9), (-1, -1))]
    return pack([Part(0, prompt, tree, True) for prompt, tree in zip(prompts, trees, strict=True)])


def logits(model: Decoder | NativeDecoder) -> torch.Tensor:
    return model.forward(ragged(), [model.new_cache() for _ in range(3)])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blocks")


@lru_cache
def block_logits(kind: str, activations: str, isa: str | None, directory: Path) -> torch.Tensor:
    """Return the logits of a model of blocks; "float" activations are those of the PyTorch pass."""
    config = block_config(kind)
    path = write_blocks(directory / f"{kind}.gguf", config, lambda _: kind)
    source = block_source(path, config)
    if activations == "float":
        return logits(Decoder(config, source, weights="file", device=CPU))
    return logits(NativeDecoder(config, source, weights="file", activations=activations, isa=isa))


def relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


@pytest.mark.parametrize("kind", KINDS)
def test_eight_bits_are_close_to_floats_and_sixteen_closer(kind: str, directory: Path) -> None:
    """Seven bits and a sign: an input is off by up to 1/254 of the largest of its 32.

    Measured 2e-2 (Q5_0) to 1.9e-1 (Q6_K); in random weights nothing else comes close to a largest logit.
    """
    exact = block_logits(kind, "float", None, directory)
    fine, coarse = (relative(block_logits(kind, each, None, directory), exact) for each in BOTH)
    assert 20 * fine < coarse < 0.25


@pytest.mark.parametrize("activations", BOTH)
@pytest.mark.parametrize("kind", KINDS)
def test_every_instruction_set_gives_the_same_numbers(kind: str, activations: str, directory: Path) -> None:
    """Sums of integers are exact; portable code rounds products of floats before it adds them."""
    found = {}
    for isa in ("amx", "avx512", "avx2", "neon", "portable"):
        try:
            found[isa] = block_logits(kind, activations, isa, directory)
        except ValueError as error:
            assert "no instruction set" in str(error)  # noqa: PT017
    plain = found.pop("portable")
    assert found, "only portable code runs here"
    first, *others = found.values()
    assert all(torch.equal(first, other) for other in others)
    assert relative(first, plain) < ROUNDING[activations]


ROUNDING = {"int16": 1e-3, "int8": 2e-2}
"""Where a sum is rounded otherwise, an activation may become another integer: measured 1.7e-4 and 9e-3."""


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_value_that_has_no_scale_spoils_its_own_row_only(value: float) -> None:
    config = tiny_config()
    source = RandomSource(config)
    source._tensors["model.embed_tokens.weight"][5, 0] = value
    model = NativeDecoder(config, source, weights="int8", activations="int8")
    batch = pack([Part(0, [3, 4], DraftTree(), True), Part(0, [5], DraftTree(), True)])
    rows = model.forward(batch, [model.new_cache(), model.new_cache()])
    alone = model.forward(pack([Part(0, [3, 4], DraftTree(), True)]), [model.new_cache()])
    assert torch.equal(rows[0], alone[0])
    assert not bool(torch.isfinite(rows[1]).any())


def test_inputs_that_are_all_zero_give_zeros() -> None:
    config = tiny_config()
    source = RandomSource(config)
    source._tensors["model.norm.weight"][:] = 0
    model = NativeDecoder(config, source, weights="int8", activations="int8")
    assert not bool(logits(model).any())


def test_activations_are_named_where_they_are_not_what_auto_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Curves of what a pass costs, and results, are told apart by these names."""
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    path = write_blocks(tmp_path / "model.gguf", block_config("Q4_1"), lambda _: "Q4_1")
    usual, fine, coarse = (
        load_model(path, device="cpu", implementation="native", activations=name)
        for name in ("auto", "int16", "int8")
    )
    assert (usual.details["activations"], coarse.details["activations"]) == ("int16", "int8")
    assert usual.details["kernel"] == fine.details["kernel"]
    kernel = usual.details["kernel"].replace("amx", "avx512")  # AMX has none for activations of 8 bits
    assert coarse.details["kernel"] == f"{kernel}, int8 activations"
    assert measured_latency(usual)._path == measured_latency(fine)._path != measured_latency(coarse)._path


@pytest.mark.parametrize("weights", ["auto", "fp32", "fp16", "bf16"])
def test_float_weights_take_no_integers(weights: str) -> None:
    config = tiny_config()
    for activations in BOTH:
        with pytest.raises(
            OptionError, match=r"weights int8 or the blocks.*floats; leave activations to auto"
        ):
            NativeDecoder(config, RandomSource(config), weights=weights, activations=activations)
    assert NativeDecoder(config, RandomSource(config), weights=weights).activations == "fp32"


def test_what_does_not_run_the_native_pass_takes_no_integers() -> None:
    config = tiny_config()
    choice = Choice("int8", CPU, "pytorch", activations="int8")
    with pytest.raises(
        CapabilityError, match=r"the native pass's, .*PyTorch pass was named; leave activations"
    ):
        build_decoder(config, RandomSource(config), choice)
    with pytest.raises(CapabilityError, match="through transformers; leave activations to auto"):
        check_adapter(choice)


def test_unknown_activations_name_the_near_ones() -> None:
    config = tiny_config()
    with pytest.raises(UnknownNameError, match="int16"):
        NativeDecoder(config, RandomSource(config), weights="int8", activations="int61")
