from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.bench import plot
from outrider.cli.main import main
from printed import Captured, document


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
    assert found["suite"]["left_out"] == ["4"]
    assert (found["running"], found["prefix_store"]) == (20, False)
    by_lm = found["results"][2]
    assert by_lm["mean_accepted_length"] > 1  # the model drafts for itself


def test_fixed_budgets_are_measured_beside_the_others(tiny: str, suite: str, capsys: Captured) -> None:
    words = ["bench", "load", tiny, "--suite", suite, "--drafters", "fixed:2:recycle,fixed:0:recycle,recycle"]
    words += ["--drafter-option", "recycle.max_nodes=9", "--concurrency", "2", "--repeats", "1"]
    assert main([*words, "--max-tokens", "8", "--ignore-eos", "--json"]) == 0
    found = document(capsys)["results"]
    assert [row["drafter"] for row in found] == ["none", "fixed:2:recycle", "fixed:0:recycle", "recycle"]
    assert [row["budget"] for row in found] == [15, 2, 0, 15]
    assert [row["free_nodes"] for row in found] == [True, True, True, False]
    assert found[1]["nodes_per_step"] > found[2]["nodes_per_step"] == 0


def test_people_get_a_table_of_loads(tiny: str, suite: str, capsys: Captured) -> None:
    words = ["bench", "load", tiny, "--suite", suite, "--concurrency", "3", "--repeats", "1"]
    assert main([*words, "--max-tokens", "3"]) == 0
    captured = capsys.readouterr()
    assert "3 at once" in captured.out
    assert "suffix" in captured.out
    assert "prompt 4 is left out" in captured.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--concurrency", "1,two"], "'two' is not a whole number above 0"),
        (["--concurrency", "0"], "'0' is not a whole number above 0"),
        (["--rate", "-1"], "'-1' is not a number above 0"),
        (["--rate", "nan"], "'nan' is not a number above 0"),
        (["--concurrency", ","], "holds no number"),
        (["--rate", ""], "holds no number"),
        (["--drafters", "fixed:x:suffix"], "write fixed:K:NAME"),
        (["--drafters", "fixed:2:sufix"], "did you mean 'suffix'"),
        (["--drafters", "failing:sufix"], "did you mean 'suffix'"),
        (["--drafter-option", "recycle.max_nodes=9"], "suffix"),
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


def test_two_numbers_give_every_request_a_limit_between_them(tiny: str, suite: str, capsys: Captured) -> None:
    words = ["bench", "load", tiny, "--suite", suite, "--drafters", "suffix", "--concurrency", "2"]
    assert main([*words, "--repeats", "1", "--ignore-eos", "--max-tokens", "3-9", "--json"]) == 0
    found = document(capsys)
    traces = found["results"][1]["traces"]
    assert [trace["tokens"] for trace in traces] == [trace["max_tokens"] for trace in traces]
    assert all(3 <= trace["tokens"] <= 9 for trace in traces)
    assert (found["least_tokens"], found["sampling"]["max_tokens"]) == (3, 9)


@pytest.mark.parametrize("wrong", ["0", "x", "", "9-3", "5-5", "0-5", "-5", "3-", "3-5-9", "1.5", "²"])
def test_limits_that_are_none_are_refused_with_what_to_write(wrong: str, capsys: Captured) -> None:
    assert main(["bench", "load", "demo", f"--max-tokens={wrong}"]) == 2
    assert "as in 24-72" in " ".join(capsys.readouterr().err.split())
