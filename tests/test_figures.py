"""The figures in the docs are those of the result files, which say where they were measured."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


def test_the_pages_say_what_the_result_files_say() -> None:
    spec = importlib.util.spec_from_file_location("figures", ROOT / "benchmarks" / "figures.py")
    assert spec is not None
    assert spec.loader is not None
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    assert {path.name for path in figures.PAGES} == {"README.md", "benchmarks.md"}
    for path, said in figures.PAGES.items():
        page = path.read_text(encoding="utf-8")
        assert figures.rewritten(page, said) == page, "run python benchmarks/figures.py"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_file_names_machine_versions_and_command(path: Path) -> None:
    provenance = json.loads(path.read_text())["provenance"]
    assert provenance["command"].startswith(("outrider bench", "python benchmarks/"))
    assert provenance["machine"]["processor"]
    assert provenance["machine"]["cores"] > 0
    assert provenance["versions"]["torch"]
    assert len(provenance["outrider"]["commit"]) >= 40
