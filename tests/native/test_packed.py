"""Packed weights on disk: found again, never wrong, never too many, never in the way."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from outrider.errors import LoadError
from outrider.loop.verify.pack import Part, pack
from outrider.models.safetensors_source import SafetensorsSource
from outrider.models.source import StateDictSource
from outrider.native import packed, store
from outrider.native.decoder import NativeDecoder
from outrider.native.weights import Packer
from outrider.types import DraftTree
from tiny import RandomSource, tiny_config
from tiny_blocks import block_config, block_source, write_blocks

CONFIG = tiny_config()
TESTS = Path(__file__).parents[1]


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


SCRIPT = """
import hashlib, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from outrider.native import store
store.FEWEST_PARAMETERS = 0
import importlib.util
spec = importlib.util.spec_from_file_location("test_packed", sys.argv[3])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.stdin.readline()
for _ in range(20):
    print(hashlib.sha256(module.logits(module.load(Path(sys.argv[1]))).numpy().tobytes()).hexdigest())
    for file in module.store.cache_directory("packed").glob("*.packed"):
        file.unlink(missing_ok=True)
module.load(Path(sys.argv[1]))
"""


def test_two_processes_at_once_get_the_same_model_and_leave_one_file(model: Path, place: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(model), str(TESTS), __file__]
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


def test_files_that_were_not_used_for_longest_go_first(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [save(tmp_path / name, seed) for seed, name in enumerate("abc")]
    files = []
    for age, directory in enumerate(models[:2]):
        load(directory)
        (new,) = set(place.iterdir()) - set(files)
        os.utime(new, (1000 + age, 1000 + age))
        files.append(new)
    load(models[0])  # now the second is the one that was not used for longest
    monkeypatch.setattr(store, "MOST_BYTES", int(2.5 * files[0].stat().st_size))
    load(models[2])
    assert files[0].exists()
    assert not files[1].exists()
    assert len(list(place.iterdir())) == 2


def test_no_more_than_a_share_of_the_free_space_is_taken(
    model: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_SHARE", 1e-12)
    decoder = load(model)
    assert not list(place.iterdir())
    assert "at most" in decoder.notices[0]
    logits(decoder)


def test_what_a_crash_left_is_removed_later(model: Path, place: Path) -> None:
    place.mkdir(parents=True)
    old, fresh = place / "old.tmp", place / "fresh.tmp"
    old.touch()
    fresh.touch()
    os.utime(old, (1000, 1000))
    load(model)
    assert not old.exists()
    assert fresh.exists()


def test_a_full_disk_costs_a_word_and_nothing_else(
    model: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, data: memoryview) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(packed._Writer, "_hand_over", full)
    decoder = load(model)
    assert decoder.notices == [f"packed weights are not kept in {place}: No space left on device"]
    assert not list(place.iterdir())
    logits(decoder)


def test_a_directory_that_cannot_be_written_is_mentioned_only_where_it_was_named(
    model: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "file"))
    named = load(model)
    assert str(tmp_path / "file") in named.notices[0]
    monkeypatch.delenv("OUTRIDER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(sys, "platform", "linux")
    silent = load(model)
    assert not silent.notices
    assert torch.equal(logits(named), logits(silent))


def test_weights_lie_in_the_users_cache_directory_unless_turned_off(
    model: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("OUTRIDER_CACHE", "off")
    load(model)
    assert not (tmp_path / "xdg").exists()
    monkeypatch.delenv("OUTRIDER_CACHE")
    load(model)
    assert len(list((tmp_path / "xdg" / "outrider" / "packed").iterdir())) == 1


def test_small_models_and_models_in_memory_are_not_kept(
    model: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = SafetensorsSource(model)
    state = {name: tensors.get(name) for name in tensors.names()}
    NativeDecoder(CONFIG, StateDictSource(state), weights="fp16")
    monkeypatch.setattr(store, "FEWEST_PARAMETERS", 10**7)
    load(model)
    assert not place.exists()


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
