from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.bench import plot
from outrider.cli.main import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def suite(tmp_path: Path) -> str:
    rows = [
        {"question_id": 1, "category": "writing", "turns": ["abcabcabc", "again"]},
        {"question_id": 2, "category": "qa", "turns": ["why? why? why?"]},
        {"question_id": 3, "category": "qa", "turns": ["z" * 600]},
    ]
    file = tmp_path / "suite.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(file)


def document(capsys: Captured) -> dict[str, Any]:
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    parsed: dict[str, Any] = json.loads(lines[-1])
    return parsed


def test_every_load_has_a_row_for_every_drafter_and_plain_decoding(
    tiny: str, suite: str, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "load.json"
    words = ["bench", "load", tiny, "--suite", suite, "--drafters", f"failing:suffix,lm:{tiny}"]
    words += ["--concurrency", "1,20", "--rate", "50", "--repeats", "2", "--requests", "4", "--max-tokens"]
    assert (
        main(
            [
                *words,
                "9",
                "--fill-budget",
                "--temperature",
                "0.8",
                "--ignore-eos",
                "--json",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    found = document(capsys)
    assert json.loads(out.read_text(encoding="utf-8")) == found
    drafters = ["none", "failing:suffix", f"lm:{tiny}"]
    rows = [(row["clients"], row["rate"], row["drafter"]) for row in found["results"]]
    assert rows == [(*load, name) for load in [(1, None), (20, None), (None, 50)] for name in drafters]
    assert all(row["identical_to_plain"] == 1 for row in found["results"])
    assert {(row["rounds"], row["requests"]) for row in found["results"]} == {(2, 4)}
    assert {run["tokens"] for run in found["runs"]} == {36}
    assert len(found["runs"]) == 18
    assert found["suite"]["left_out"] == ["3"]
    assert (found["running"], found["prefix_store"]) == (20, False)
    by_lm = found["results"][2]
    assert by_lm["mean_accepted_length"] > 1  # the model drafts for itself


def test_people_get_a_table_of_loads(tiny: str, suite: str, capsys: Captured) -> None:
    words = ["bench", "load", tiny, "--suite", suite, "--concurrency", "3", "--repeats", "1"]
    assert main([*words, "--max-tokens", "3"]) == 0
    captured = capsys.readouterr()
    assert "3 at once" in captured.out
    assert "suffix" in captured.out
    assert "prompt 3 is left out" in captured.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--concurrency", "1,two"], "'two' is not a whole number above 0"),
        (["--concurrency", "0"], "'0' is not a whole number above 0"),
        (["--rate", "-1"], "'-1' is not a number above 0"),
        (["--rate", "nan"], "'nan' is not a number above 0"),
        (["--concurrency", ","], "no load is left"),
        (["--drafters", "failing:sufix"], "did you mean 'suffix'"),
        (["--drafter-option", "recycle.shared=no"], "suffix"),
        (["--out", "missing/load.json"], "--out"),
        (["--plot", "missing/load.png"], "--plot"),
    ],
)
def test_a_wrong_request_is_refused_in_one_line(
    words: list[str], message: str, tiny: str, capsys: Captured
) -> None:
    assert main(["bench", "load", tiny, *words]) == 2
    assert message in capsys.readouterr().err


def test_a_picture_is_refused_before_anything_is_measured_where_it_cannot_be_drawn(
    tiny: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "find_spec", lambda _: None)
    assert main(["bench", "load", "no such model", "--plot", "load.png"]) == 2
    assert "matplotlib" in capsys.readouterr().err
