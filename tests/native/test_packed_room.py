"""Packed weights on disk: never too many, never in the way."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest
import torch

from outrider.models.safetensors_source import SafetensorsSource
from outrider.models.source import StateDictSource
from outrider.native import packed, store
from outrider.native.decoder import NativeDecoder
from packing import CONFIG, load, logits, model, packings, place, save

__all__ = ["model", "packings", "place"]  # fixtures


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
