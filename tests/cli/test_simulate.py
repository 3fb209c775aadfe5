from __future__ import annotations

from pathlib import Path

import pytest

from outrider.cli.main import main
from printed import Captured, document

PUBLISHED = "h100-llama-3.1-8b"


@pytest.fixture
def curve(tmp_path: Path) -> str:
    """A machine on which a pass takes 10 ms, however many rows it has."""
    file = tmp_path / "curve.json"
    file.write_text('{"rows": [1, 2], "milliseconds": [10, 10]}', encoding="utf-8")
    return str(file)


def test_plain_decoding_stands_beside_the_drafter_at_every_load(curve: str, capsys: Captured) -> None:
    words = ["simulate", curve, "--acceptance", "1", "--prompt-tokens", "3", "--max-tokens", "8"]
    assert main([*words, "--budget", "3", "--concurrency", "1,2", "--rate", "50", "--json"]) == 0
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
    assert found[256, 128, 0.3]["length"] < found[256, 1, 0.3]["length"]
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
    assert assumed["latency"]["rows"][-1] == 64
    assert assumed["reading_latency"]["rows"][-1] == 256
    assert assumed["draft_latency"]["rows"][0] == 1


def measured(tiny: str, suite: str, out: Path) -> None:
    """Measure a drafter, and the same one with a fixed budget, under two loads."""
    words = ["bench", "load", tiny, "--suite", suite, "--drafters", "suffix,fixed:2:failing:suffix"]
    words += ["--concurrency", "1,3", "--requests", "4", "--repeats", "1", "--max-tokens", "12"]
    assert main([*words, "--ignore-eos", "--json", "--out", str(out)]) == 0


def test_what_was_measured_under_load_is_simulated_from_its_traces(
    tiny: str, suite: str, curve: str, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "load.json"
    measured(tiny, suite, out)
    rows = document(capsys)["results"]
    for name in ("suffix", "fixed:2:failing:suffix"):
        assert main(["simulate", curve, "--from", str(out), "--drafter", name, "--json"]) == 0
        found = document(capsys)
        assert [(row["drafter"], row["clients"]) for row in found["results"]] == [
            (drafter, clients) for clients in (1, 3) for drafter in ("none", name)
        ]
        assert {row["requests"] for row in found["results"]} == {4}
        assert [row["overhead"] for row in found["assumed"]["by_load"]] == [
            row["overhead_ms"] for row in rows if row["drafter"] == name
        ]
        assert {row["traces"] for row in found["assumed"]["by_load"]} == {4}
    failing = found["results"]
    nodes = [row["nodes_per_step"] for row in rows if row["drafter"] == "fixed:2:failing:suffix"]
    assert [row["nodes_per_step"] for row in failing[1::2]] == nodes
    assert {row["mean_accepted_length"] for row in failing} == {1.0}


def test_traced_drafts_are_simulated_with_other_requests_and_other_loads(
    tiny: str, suite: str, curve: str, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "load.json"
    measured(tiny, suite, out)
    document(capsys)
    words = ["simulate", curve, "--from", str(out), "--concurrency", "2", "--requests", "7", "--json"]
    assert main([*words, "--prompt-tokens", "9", "--max-tokens", "30"]) == 0
    [plain, drafting] = document(capsys)["results"]
    assert (plain["clients"], plain["requests"], drafting["requests"]) == (2, 7, 7)
    assert main(words) == 0
    assert {row["requests"] for row in document(capsys)["results"]} == {7}
    assert main([*words, "--max-tokens", "30"]) == 2
    assert "--prompt-tokens" in capsys.readouterr().err
    assert main(["simulate", curve, "--from", str(out), "--drafter", "recycle"]) == 1
    assert "no figures of 'recycle'" in capsys.readouterr().err


def test_a_fixed_budget_is_simulated_without_a_planner(curve: str, tmp_path: Path, capsys: Captured) -> None:
    dear = tmp_path / "dear.json"
    dear.write_text('{"rows": [1, 2], "milliseconds": [10, 20]}', encoding="utf-8")
    words = ["simulate", str(dear), "--acceptance", "0.5", "--prompt-tokens", "1", "--concurrency", "1"]
    for drafter, some in (("fixed:2:suffix", True), ("fixed:0:suffix", False), ("suffix", False)):
        assert main([*words, "--drafter", drafter, "--json"]) == 0
        assert (document(capsys)["results"][1]["nodes_per_step"] > 1) == some


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
        (["--acceptance", "0.5", "--prompt-tokens", "0"], "not a whole number above 0"),
        (["--acceptance", "0.5", "--prompt-tokens", "9", "--concurrency", "x"], "not a whole number above 0"),
        (["--acceptance", "0.5", "--prompt-tokens", "9", "--rate", "-1"], "number above 0"),
        (["--acceptance", "0.5", "--prompt-tokens", "9", "--scale", "0"], "number above 0"),
        (["--acceptance", "0.5", "--prompt-tokens", "9", "--drafter", "lm:demo"], "only a curve"),
        (["--acceptance", "0.5", "--drafter", "layerskip"], "measure it with outrider bench"),
        (
            ["--acceptance", "0.5", "--prompt-tokens", "9", "--drafter", "fixed:x:suffix"],
            "write fixed:K:NAME",
        ),
        (["--acceptance", "0.5", "--drafter", "fixed:2:suffix", "--budget", "3"], "leave one out"),
        (["--acceptance", "0.5", "--prompt-tokens", "9", "--drafter", "failing:suffix"], "bench load"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_what_to_do(
    words: list[str], said: str, capsys: Captured
) -> None:
    assert main(["simulate", PUBLISHED, *words]) == 2
    [line] = capsys.readouterr().err.splitlines()[-1:]
    assert line.startswith("error:")
    assert said in line
