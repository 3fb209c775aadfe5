"""Tiny models that are packed to disk: saving, loading, and seeing what was packed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from safetensors.torch import save_file
from torch import Tensor

from outrider.loop.verify.pack import Part, pack
from outrider.models.safetensors_source import SafetensorsSource
from outrider.native import store
from outrider.native.decoder import NativeDecoder
from outrider.native.weights import Packer
from outrider.types import DraftTree
from tiny import RandomSource, tiny_config

CONFIG = tiny_config()


def save(directory: Path, seed: int = 0, scale: float = 1.0) -> Path:
    directory.mkdir(exist_ok=True)
    source = RandomSource(CONFIG, seed)
    source.scale("model.layers.0.mlp.up_proj.weight", scale)
    save_file({name: source.get(name) for name in source.names()}, directory / "model.safetensors")
    return directory


def load(directory: Path, weights: str = "fp16") -> NativeDecoder:
    decoder = NativeDecoder(CONFIG, SafetensorsSource(directory), weights=weights)
    settle()
    return decoder


def settle() -> None:
    """Wait until what was written has its name."""
    for thread in threading.enumerate():
        if thread.name.startswith("publish"):
            thread.join()


def logits(decoder: NativeDecoder) -> Tensor:
    return decoder.forward(pack([Part(0, list(range(9)), DraftTree(), True)]), [decoder.new_cache()])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path / "model")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of packed weights, where even tiny models are kept."""
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "FEWEST_PARAMETERS", 0)
    return tmp_path / "cache" / "packed"


@pytest.fixture
def packings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the matrices that were packed since."""
    names: list[str] = []
    whole = Packer._matrix

    def spy(self: Packer, name: str) -> object:
        names.append(name)
        return whole(self, name)

    monkeypatch.setattr(Packer, "_matrix", spy)
    return names
