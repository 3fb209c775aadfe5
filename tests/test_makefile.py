"""What make does before it runs anything."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def clone(place: Path, made_at: Path | None) -> Path:
    """Lay out what make looks at: the Makefile, and an environment that says where it was made."""
    (place / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", place)
    (place / ".venv" / "bin" / "pip").write_text("#!/bin/sh\n")
    if made_at is not None:
        (place / ".venv" / "made-at").write_text(f"{made_at}\n")
    return place


def make(place: Path, *words: str) -> str:
    done = subprocess.run(["make", "-C", str(place), *words], capture_output=True, text=True, check=True)
    return done.stdout


def test_an_environment_that_was_made_elsewhere_is_made_anew(tmp_path: Path) -> None:
    """In a moved clone commands of .venv named the old place: make ran what was there, or failed."""
    moved = clone(tmp_path / "moved", tmp_path / "before").resolve()
    (moved / "python").write_text('#!/bin/sh\n[ "$1" = -c ] || mkdir .venv\n')
    (moved / "python").chmod(0o755)
    assert f".venv was made in {tmp_path / 'before'}, not here" in make(
        moved, "PYTHON=./python", ".venv/bin/pip"
    )
    assert [path.name for path in (moved / ".venv").iterdir()] == ["made-at"]
    assert (moved / ".venv" / "made-at").read_text().strip() == str(moved)


@pytest.mark.parametrize("known", [True, False])
def test_an_environment_that_was_made_here_or_by_hand_stays(known: bool, tmp_path: Path) -> None:
    place = (tmp_path / "here").resolve()
    clone(place, place if known else None)
    assert "made anew" not in make(place, ".venv/bin/pip")
    assert (place / ".venv" / "bin" / "pip").exists()
