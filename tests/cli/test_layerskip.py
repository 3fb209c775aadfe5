"""Drafting without some layers from the command line: named or searched, said so, shown meanwhile."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from outrider.cli.loading import load_llm
from outrider.cli.main import main

Captured = pytest.CaptureFixture[str]
WORDS = ["--prompt", "abcabcabcabcabc", "--max-tokens", "24", "--ignore-eos", "--seed", "3", "--json"]


def text(words: list[str], capsys: Captured) -> tuple[list[int], str]:
    """Return the tokens of a run and what it said beside them."""
    assert main(["generate", *words, *WORDS]) == 0
    said = capsys.readouterr()
    tokens: list[int] = json.loads(said.out)["token_ids"]
    return tokens, " ".join(said.err.split())


@pytest.mark.parametrize("temperature", ["0", "0.8"])
def test_layers_are_named_or_searched_and_the_text_is_that_of_plain_decoding(
    temperature: str, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    same = [tiny, "--temperature", temperature, "--fill-budget", "--drafter"]
    plain, _ = text([*same, "none"], capsys)
    named, said = text([*same, "layerskip", "--drafter-option", "skip=1"], capsys)
    assert (named, "layerskip" in said) == (plain, False)
    searched, said = text([*same, "layerskip"], capsys)
    assert searched == plain
    assert "note: layerskip: without layers" in said
    kept = [file.read_bytes() for file in (tmp_path / "layers").iterdir()]
    assert text([*same, "layerskip"], capsys) == (plain, said)
    assert [file.read_bytes() for file in (tmp_path / "layers").iterdir()] == kept


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--drafter-option", "skip=2"], "layers are 0 to 1"),
        (["--drafter-option", "skip=0-1"], "all 2 layers"),
        (["--drafter-option", "skip=0", "--drafter-option", "adapt=true"], "leave 'skip' out"),
    ],
)
def test_layers_that_cannot_be_left_out_are_refused(
    words: list[str], said: str, tiny: str, capsys: Captured
) -> None:
    assert main(["generate", tiny, "--drafter", "layerskip", *words, *WORDS]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_whoever_waits_for_a_search_sees_how_far_it_is(tiny: str) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=200)
    load_llm(tiny, console, drafter="layerskip", drafter_options={"search_passes": 2})
    assert "of 2 passes" in shown.getvalue() or "2 passes, without layers" in shown.getvalue()
