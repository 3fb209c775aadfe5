"""Saving a head leaves a whole one, or what was there before, and nothing beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.errors import HeadError
from outrider.heads.exchange import load_head, save_head
from outrider.heads.formats import files as head_files
from tiny_heads import eagle3_head, medusa_heads


def test_a_head_saved_again_replaces_the_one_before(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "head"
    save_head(medusa_heads(), place, "medusa", target="some/model")
    save_head(eagle3_head(), place, "specforge")
    assert sorted(path.name for path in place.iterdir()) == ["config.json", "model.safetensors"]
    assert load_head(place).spelling == "specforge"
    assert [path.name for path in place.parent.iterdir()] == ["head"]


def test_a_place_that_holds_other_things_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "model"
    place.mkdir()
    (place / "tokenizer.json").write_text("mine")
    (place / "config.json").write_text("{}")
    with pytest.raises(HeadError, match=r"holds other things \(tokenizer\.json\)"):
        save_head(eagle3_head(), place, "specforge")
    assert (place / "config.json").read_text() == "{}"
    with pytest.raises(HeadError, match="is a file; a head is saved as a directory"):
        save_head(eagle3_head(), place / "tokenizer.json", "specforge")
    assert (place / "tokenizer.json").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("moment", ["_write_tensors", "_write_json"])
def test_a_save_that_fails_leaves_the_head_before_as_it_was(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "head"
    save_head(eagle3_head(seed=1), place, "specforge")
    before = {path.name: path.read_bytes() for path in place.iterdir()}

    def full(path: Path, *_: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(head_files, moment, full)
    with pytest.raises(HeadError, match=r"cannot be written to .*: No space left on device"):
        save_head(eagle3_head(seed=2), place, "specforge")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["head"]


def test_a_move_that_fails_puts_the_head_before_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "head"
    save_head(eagle3_head(seed=1), place, "specforge")
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    rename, moves = Path.rename, []

    def failing(path: Path, target: Path) -> Path:
        moves.append(target)
        if len(moves) == 2:
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(HeadError, match="Input/output error"):
        save_head(eagle3_head(seed=2), place, "specforge")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["head"]


def test_a_saved_configuration_is_plain_json(tmp_path: Path) -> None:
    save_head(eagle3_head(), tmp_path / "head", "speculators", target="a/b", target_architecture="C")
    config = json.loads((tmp_path / "head" / "config.json").read_text())
    assert config["speculators_config"]["verifier"] == {"name_or_path": "a/b", "architectures": ["C"]}
    methods = config["speculators_config"]["proposal_methods"]
    assert config["speculators_config"]["default_proposal_method"] in [m["proposal_type"] for m in methods]
