"""docs/sampling.md lists every option with its default."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from outrider.sampling.params import SamplingParams

DOCS = (Path(__file__).parents[2] / "docs" / "sampling.md").read_text(encoding="utf-8")


def test_every_option_has_a_row_and_every_row_is_an_option() -> None:
    rows = [line for line in DOCS.splitlines() if line.startswith("| `")]
    documented = [name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split(" | ")[0])]
    assert sorted(documented) == sorted(field.name for field in fields(SamplingParams))


def test_defaults_that_are_numbers_are_the_documented_ones() -> None:
    for field in fields(SamplingParams):
        row = next((line for line in DOCS.splitlines() if line.startswith(f"| `{field.name}` ")), "")
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            assert float(row.split(" | ")[1]) == field.default
