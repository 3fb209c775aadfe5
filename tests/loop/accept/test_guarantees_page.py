"""The page on guarantees names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_test_named_on_the_page_exists() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    named = re.findall(r"`(?:tests/[\w/]+/)?(test_\w+\.py)::(test_\w+)`", page)
    assert len(named) >= 15
    for file, name in named:
        sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob(file)]
        assert any(f"def {name}(" in source for source in sources), f"{file}::{name}"
