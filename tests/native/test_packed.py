"""Packed weights on disk: found again, and never wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from outrider.errors import LoadError
from outrider.native import store
from outrider.native.decoder import NativeDecoder
from packing import load, logits, model, packings, place, save, settle
from tiny_blocks import block_config, block_source, write_blocks

__all__ = ["model", "packings", "place"]  # fixtures


@pytest.mark.parametrize("weights", ["fp32", "fp16", "bf16", "int8"])
def test_a_second_load_packs_nothing_and_gives_the_same_logits_bit_for_bit(
    weights: str, model: Path, place: Path, packings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as off:
        off.setenv("OUTRIDER_CACHE", "off")
        in_memory = load(model, weights)
    first = load(model, weights)
    (file,) = place.iterdir()
    packings.clear()
    second = load(model, weights)
    assert not packings
    assert list(place.iterdir()) == [file]
    for decoder in (first, second):
        assert torch.equal(logits(in_memory), logits(decoder))
        assert decoder.parameters == in_memory.parameters


def test_blocks_of_a_gguf_file_are_kept_too(place: Path, tmp_path: Path, packings: list[str]) -> None:
    config, kinds = block_config("Q4_K"), {"q": "Q4_1", "k": "F16", "v": "Q6_K", "gate": "Q8_0"}
    path = write_blocks(
        tmp_path / "model.gguf", config, lambda name: kinds.get(name.split(".")[-2][:-5], "Q4_K")
    )
    decoders = []
    for _ in range(2):
        packings.clear()
        decoders.append(NativeDecoder(config, block_source(path, config), weights="auto"))
        settle()
    assert not packings
    assert decoders[0].weights == decoders[1].weights == "file (fp16, q4_1, q4_k, q6_k, q8_0)"
    assert torch.equal(logits(decoders[0]), logits(decoders[1]))


def test_a_mapped_model_outlives_its_file(model: Path, place: Path) -> None:
    first = load(model)
    before = logits(first)
    for file in place.iterdir():
        file.unlink()
    assert torch.equal(logits(first), before)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def without_table(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def other_version(data: bytes) -> bytes:
    return data[:8] + bytes([data[8] + 1]) + data[9:]


def unfinished(data: bytes) -> bytes:
    return bytes(4096) + data[4096:]


def nothing(data: bytes) -> bytes:
    return b""


def flipped_bit(data: bytes) -> bytes:
    """One bit of a weight: this used to go unnoticed, and the text was nonsense."""
    return data[:70000] + bytes([data[70000] ^ 64]) + data[70001:]


@pytest.mark.parametrize("damage", [cut, flipped_bit, without_table, other_version, unfinished, nothing])
def test_a_file_that_is_damaged_or_of_another_version_is_replaced(
    damage: Callable[[bytes], bytes], model: Path, place: Path, packings: list[str]
) -> None:
    before = logits(load(model))
    (file,) = place.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    packings.clear()
    assert torch.equal(logits(load(model)), before)
    assert packings
    assert file.read_bytes() == whole


def test_another_model_in_the_same_place_is_packed_anew(model: Path, place: Path, tmp_path: Path) -> None:
    """Of the same size and with the same time of modification, as unpacking an archive may leave it."""
    old, times = logits(load(model)), (model / "model.safetensors").stat()
    save(model, seed=1)
    os.utime(model / "model.safetensors", ns=(times.st_atime_ns, times.st_mtime_ns))
    new = logits(load(model))
    assert not torch.equal(old, new)
    assert torch.equal(new, logits(load(save(tmp_path / "elsewhere", seed=1))))


def test_another_build_of_the_core_reads_no_file_of_this_one(
    model: Path, place: Path, packings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load(model)
    packings.clear()
    monkeypatch.setattr(store, "_core_digest", lambda: "another")
    load(model)
    assert packings


TESTS = Path(__file__).parents[1]
SCRIPT = """
import hashlib, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import packing
packing.store.FEWEST_PARAMETERS = 0
sys.stdin.readline()
for _ in range(20):
    print(hashlib.sha256(packing.logits(packing.load(Path(sys.argv[1]))).numpy().tobytes()).hexdigest())
    for file in packing.store.cache_directory("packed").glob("*.packed"):
        file.unlink(missing_ok=True)
packing.load(Path(sys.argv[1]))
"""


def test_two_processes_at_once_get_the_same_model_and_leave_one_file(model: Path, place: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(model), str(TESTS)]
    both = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    texts = [process.communicate(timeout=120)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert len(texts[0]) == 20
    assert len({text for own in texts for text in own}) == 1
    assert [file.suffix for file in place.iterdir()] == [".packed"]


def test_a_wider_matrix_is_reported_each_time_and_refused_where_fp16_was_asked_for(
    place: Path, tmp_path: Path
) -> None:
    model = save(tmp_path / "model", scale=1e6)
    first, second = load(model, "auto"), load(model, "auto")
    assert first.notices == second.notices
    assert "kept in fp32" in first.notices[0]
    with pytest.raises(LoadError, match="fp16 cannot hold"):
        load(model, "fp16")


def test_a_model_that_cannot_be_packed_leaves_nothing_behind(place: Path, tmp_path: Path) -> None:
    model = save(tmp_path / "model", scale=1e6)
    with pytest.raises(LoadError, match="fp16 cannot hold"):
        load(model, "fp16")
    assert not list(place.iterdir())
