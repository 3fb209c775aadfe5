from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.cli.main import main

Captured = pytest.CaptureFixture[str]
PUBLISHED = "h100-llama-3.1-8b"


def document(capsys: Captured) -> dict[str, Any]:
    [line] = capsys.readouterr().out.splitlines()
    parsed: dict[str, Any] = json.loads(line)
    return parsed


@pytest.fixture
def curve(tmp_path: Path) -> str:
    """A machine on which a pass takes 10 ms, however many rows it has."""
    file = tmp_path / "curve.json"
    file.write_text('{"rows": [1, 2], "milliseconds": [10, 10]}', encoding="utf-8")
    return str(file)


def test_plain_decoding_stands_beside_the_drafter_at_every_load(curve: str, capsys: Captured) -> None:
    words = ["simulate", curve, "--acceptance", "1", "--prompt-tokens", "3", "--max-tokens", "8"]
    assert main([*words, "--budget", "3", "--concurrency", "2,1", "--rate", "50", "--json"]) == 0
    found = document(capsys)["results"]
    assert [(row["drafter"], row["clients"], row["rate"]) for row in found] == [
        (drafter, *load) for load in ((1, None), (2, None), (None, 50.0)) for drafter in ("none", "suffix")
    ]
    plain, drafting = found[:2]
    assert (plain["tokens_per_second"], plain["mean_accepted_length"]) == (100.0, 1.0)
    assert (drafting["tokens_per_second"], drafting["throughput_over_plain"]) == (400.0, 4.0)
    assert plain["time_to_first_token"]["mean"] == pytest.approx(0.01)
    assert (plain["undrafted_steps"], drafting["undrafted_steps"]) == (1.0, 0.0)
    assert found[2]["tokens_per_second"] == 200.0


def test_a_larger_model_takes_longer_and_overhead_counts_for_each_sequence(
    curve: str, capsys: Captured
) -> None:
    words = ["simulate", curve, "--acceptance", "0", "--prompt-tokens", "3", "--concurrency", "2"]
    assert main([*words, "--scale", "4", "--overhead", "5", "--json"]) == 0
    plain = document(capsys)["results"][0]
    assert plain["tokens_per_second"] == pytest.approx(2 * 1000 / (40 + 2 * 5))


def test_the_same_seed_gives_the_same_result(capsys: Captured) -> None:
    words = ["simulate", PUBLISHED, "--acceptance", "0.6", "--prompt-tokens", "100,30", "--rate", "20"]
    found = []
    for seed in ("1", "1", "2"):
        assert main([*words, "--requests", "20", "--seed", seed, "--json"]) == 0
        found.append(document(capsys)["results"])
    assert found[0] == found[1] != found[2]


def test_a_map_tells_where_drafts_pay(capsys: Captured) -> None:
    words = ["simulate", PUBLISHED, "--acceptance", "0.6", "--prompt-tokens", "100"]
    assert main([*words, "--requests", "2", "--context", "256,8192", "--json"]) == 0
    found = {(r["context"], r["batch"], r["alpha"]): r for r in document(capsys)["regimes"]}
    assert found[256, 1, 0.9]["speedup"] > found[256, 128, 0.9]["speedup"] > 1
    assert found[256, 128, 0.3]["length"] == 0
    assert {context for context, *_ in found} == {256, 8192}


def test_a_model_is_timed_and_its_tokenizer_measures_the_suite(
    tiny: str, tmp_path: Path, capsys: Captured
) -> None:
    suite = tmp_path / "suite.jsonl"
    suite.write_text('{"prompt": "abc"}\n{"prompt": "abcdef"}', encoding="utf-8")
    words = ["simulate", tiny, "--drafter", f"lm:{tiny}", "--acceptance", "0.5", "--suite", str(suite)]
    assert main([*words, "--max-tokens", "4", "--concurrency", "1", "--json"]) == 0
    assumed = document(capsys)["assumed"]
    short, long = assumed["prompt_tokens"]
    assert long == short + 3
    assert assumed["latency"]["rows"][-1] == 256
    assert assumed["draft_latency"]["rows"][0] == 1


def test_people_get_tables(capsys: Captured) -> None:
    words = ["simulate", PUBLISHED, "--acceptance", "0.6", "--prompt-tokens", "100", "--requests", "4"]
    assert main([*words, "--concurrency", "1", "--rate", "3"]) == 0
    shown = capsys.readouterr().out
    assert "1 at once" in shown
    assert "3/s" in shown
    assert "context 256" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prompt-tokens", "9"], "give one of --acceptance"),
        (["--acceptance", "0.5"], "give --prompt-tokens"),
        (["--acceptance", "0.5", "--prompt-tokens", "9", "--suite", "own"], "not both"),
        (["--acceptance", "0.5", "--prompt-tokens", "0"], "whole numbers from 1"),
        (["--acceptance", "0.5", "--prompt-tokens", "9", "--concurrency", "x"], "whole numbers from 1"),
        (["--acceptance", "0.5", "--prompt-tokens", "9", "--rate", "-1"], "number above 0"),
        (["--acceptance", "0.5", "--prompt-tokens", "9", "--scale", "0"], "number above 0"),
        (["--acceptance", "0.5", "--prompt-tokens", "9", "--drafter", "lm:demo"], "only a curve"),
        (["--acceptance", "0.5", "--drafter", "layerskip"], "measure it with outrider bench"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_what_to_do(
    words: list[str], said: str, capsys: Captured
) -> None:
    assert main(["simulate", PUBLISHED, *words]) == 2
    [line] = capsys.readouterr().err.splitlines()[-1:]
    assert line.startswith("error:")
    assert said in line
