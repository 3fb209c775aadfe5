"""Tiles of AMX: many rows of 4- to 6-bit weights get the very bits that AVX-512 gives them without."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from outrider.loop.verify.pack import Part, pack
from outrider.native import _core
from outrider.native.decoder import NativeDecoder
from outrider.types import DraftTree
from pass_conformance import read
from tiny_blocks import KINDS, block_config, block_source, write_blocks

pytestmark = pytest.mark.usefixtures("two_threads")


@pytest.fixture(autouse=True)
def has_tiles() -> None:
    try:
        _core.make_decoder(11, 16, 16, 2, 1, 8, 1e-5, "amx")
    except ValueError as reason:
        pytest.skip(str(reason))


def decoders(directory: Path, kind: str, isas: tuple[str, ...]) -> list[NativeDecoder]:
    """Return the same model on each instruction set; its blocks of a row are not a multiple of anything."""
    config = block_config(kind, inner=512 if kind.endswith("_K") else 160)
    path = write_blocks(directory / "model.gguf", config, lambda _: kind)
    return [NativeDecoder(config, block_source(path, config), weights="file", isa=isa) for isa in isas]


@pytest.mark.parametrize("kind", KINDS)
def test_tiles_give_the_bits_that_pairs_give(kind: str, tmp_path: Path) -> None:
    chance = random.Random(3)
    models = decoders(tmp_path, kind, ("amx", "avx512"))
    caches = [model.new_cache() for model in models]
    for model, cache in zip(models, caches, strict=True):
        read(model, cache, range(1, 80), lambda: 40, lambda: None)
    for rows in (*range(7, 19), 25, 32, 33, 50):
        tokens = tuple(chance.randrange(97) for _ in range(rows - 1))
        batch = pack([Part(79, [3], DraftTree(tokens, tuple(range(-1, rows - 2))), True)])
        ours, theirs = (model.forward(batch, [cache]) for model, cache in zip(models, caches, strict=True))
        assert bool(torch.isfinite(ours).all())
        assert torch.equal(ours, theirs), f"{rows} rows"


def test_registers_shaped_by_another_library_in_between_do_no_harm(tmp_path: Path) -> None:
    """PyTorch's own matrix products may use the same registers on the same thread, in shapes of their own."""
    (model,) = decoders(tmp_path, "Q4_1", ("amx",))
    batch = pack([Part(0, list(range(1, 17)), DraftTree(), True)])
    before = model.forward(batch, [model.new_cache()])
    half = torch.ones(64, 64, dtype=torch.bfloat16)
    assert float((half @ half)[0, 0]) == 64
    assert torch.equal(model.forward(batch, [model.new_cache()]), before)
    assert float((half @ half)[0, 0]) == 64
