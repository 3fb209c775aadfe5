from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.bench.contestants import DrafterContestant
from outrider.cli.main import main
from outrider.native import why_missing
from printed import Captured, document


def test_bench_runs_plain_decoding_beside_what_is_asked_for(tiny: str, suite: str, capsys: Captured) -> None:
    words = ["bench", tiny, "--suite", suite, "--drafters", "suffix", "--max-tokens", "12", "--json"]
    assert main(words) == 0
    found = document(capsys)
    rows = [(row["drafter"], row["category"], row["prompts"]) for row in found["results"]]
    tasks = [("mt", 2), ("qa", 1), ("overall", 3)]
    assert rows == [(drafter, *task) for drafter in ("none", "suffix") for task in tasks]
    assert all(row["identical_to_plain"] == 1 for row in found["results"])
    assert found["suite"]["left_out"] == ["4"]
    assert found["results"][0]["mean_accepted_length"] == 1
    assert found["results"][0]["acceptance_rate"] is None
    assert found["results"][0]["speedup"] == {"median": 1, "low": 1, "high": 1}


def test_bench_run_is_the_same_command_spelled_out(tiny: str, suite: str, capsys: Captured) -> None:
    words = [tiny, "--suite", suite, "--max-tokens", "3", "--limit", "1", "--json"]
    assert main(["bench", "run", *words]) == 0
    assert {row["category"] for row in document(capsys)["results"]} == {"mt", "qa", "overall"}
    assert main(["bench", "--suite", suite, tiny, "--max-tokens", "3", "--limit", "1", "--json"]) == 0
    assert document(capsys)["prompts"]


def test_seeded_sampling_is_identical_to_plain_decoding(tiny: str, suite: str, capsys: Captured) -> None:
    words = ["bench", tiny, "--suite", suite, "--drafters", f"suffix,lm:{tiny}", "--max-tokens", "16"]
    assert main([*words, "--temperature", "0.8", "--ignore-eos", "--turns", "--json"]) == 0
    found = document(capsys)
    assert all(row["identical_to_plain"] == 1 for row in found["results"])
    assert {row["completion_tokens"] for row in found["prompts"]} == {16}
    assert {row["turn"] for row in found["prompts"]} == {0, 1}


def test_the_result_file_is_the_document(tiny: str, suite: str, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "result.json"
    words = ["bench", tiny, "--suite", suite, "--max-tokens", "3", "--json", "--out", str(out)]
    assert main(words) == 0
    assert json.loads(out.read_text(encoding="utf-8")) == document(capsys)


def test_people_get_a_table(tiny: str, suite: str, capsys: Captured) -> None:
    assert main(["bench", tiny, "--suite", suite, "--max-tokens", "3"]) == 0
    captured = capsys.readouterr()
    assert "overall" in captured.out
    assert "suffix" in captured.out
    assert "prompt 4 is left out" in captured.err


def test_a_malformed_line_is_named(tiny: str, tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"prompt": "fine"}\n{"prompt": \n', encoding="utf-8")
    assert main(["bench", tiny, "--suite", str(file)]) == 1
    assert "line 2" in capsys.readouterr().err


def test_peers_are_greedy_only(tiny: str, suite: str, capsys: Captured) -> None:
    words = ["bench", tiny, "--suite", suite, "--max-tokens", "3"]
    assert main([*words, "--peer", "transformers", "--temperature", "1"]) == 2
    assert "--temperature 0" in capsys.readouterr().err
    assert main([*words, "--peer", "tranformers"]) == 2
    assert "did you mean 'transformers'" in capsys.readouterr().err


def test_curve_times_every_count_of_rows(tiny: str, capsys: Captured) -> None:
    words = ["bench", "curve", tiny, "--context", "40", "--context", "5000", "--repeats", "1", "--json"]
    assert main(words) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert [point["rows"] for point in found["curves"]] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    assert {point["context"] for point in found["curves"]} == {40}
    assert all(point["milliseconds"] > 0 for point in found["curves"])
    assert {point["kernel"] for point in found["curves"]} == {found["provenance"]["model"]["kernel"]}
    assert found["curves"][0]["ratio"] == 1
    assert found["contexts_left_out"] == [5000]
    assert "5000" in captured.err


def test_curve_compares_formats_and_implementations(tiny: str, capsys: Captured) -> None:
    words = ["bench", "curve", tiny, "--context", "9", "--repeats", "1", "--pass", "pytorch"]
    assert main([*words, "--weights", "fp32, bf16", "--json"]) == 0
    points = document(capsys)["curves"]
    kernels = list(dict.fromkeys(point["kernel"] for point in points))
    assert len(kernels) == 2
    assert "bf16" in kernels[1]
    assert [point["rows"] for point in points] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32] * 2
    assert main([*words, "--weights", "fp32,bf16"]) == 0
    assert capsys.readouterr().out.count("ratio") == 2


@pytest.mark.skipif(why_missing() is not None, reason="the native core was not built")
def test_curve_compares_the_native_pass_with_the_one_in_pytorch(tiny: str, capsys: Captured) -> None:
    words = ["bench", "curve", tiny, "--context", "9", "--repeats", "1", "--weights", "fp32", "--json"]
    assert main([*words, "--pass", "native,pytorch"]) == 0
    first, second = dict.fromkeys(point["kernel"] for point in document(capsys)["curves"])
    assert first.startswith("native fp32")
    assert not second.startswith("native")
    assert main([*words, "--pass", "native,auto"]) == 2
    assert "once more" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--drafter", "lm:"], ["--drafter", "layerskip", "--drafter-option", "layerskip.skip=1"]]
)
def test_curve_times_the_steps_of_a_drafter(words: list[str], tiny: str, capsys: Captured) -> None:
    words = [word + tiny if word == "lm:" else word for word in words]
    words = ["bench", "curve", tiny, "--context", "9", "--repeats", "1", *words]
    assert main([*words, "--json"]) == 0
    found = document(capsys)
    assert found["drafter"] in words
    assert [step["nodes"] for step in found["steps"]] == [1, 2, 4, 8]
    one = found["curves"][0]["milliseconds"]
    for step in found["steps"]:
        assert step["share"] == pytest.approx(step["milliseconds"] / one)
        assert (step["kernel"], step["context"]) == (found["curves"][0]["kernel"], 9)
    assert main(words) == 0
    assert "of a pass" in capsys.readouterr().out


@pytest.mark.parametrize("drafter", ["suffix", "none", "auto:suffix+lm:x", "merged:suffix+recycle"])
def test_a_drafter_without_passes_of_its_own_has_no_steps(drafter: str, capsys: Captured) -> None:
    assert main(["bench", "curve", "no-such-model", "--drafter", drafter]) == 2
    assert "eagle" in capsys.readouterr().err
    assert main(["bench", "curve", "no-such-model", "--drafter-option", "lm.width=2"]) == 2


@pytest.mark.parametrize("command", ["curve", "roofline"])
def test_passes_and_formats_that_are_not_there_are_named(command: str, tiny: str, capsys: Captured) -> None:
    assert main(["bench", command, tiny, "--pass", "pytroch"]) == 2
    assert "did you mean 'pytorch'" in capsys.readouterr().err
    assert main(["bench", command, tiny, "--weights", "fp8"]) == 2
    assert "fp16" in capsys.readouterr().err


def test_a_curve_of_nothing_is_refused(tiny: str, capsys: Captured) -> None:
    assert main(["bench", "curve", tiny, "--pass", ","]) == 2
    assert "--pass" in capsys.readouterr().err


@pytest.mark.skipif(why_missing() is not None, reason="the native core was not built")
def test_roofline_compares_passes_with_the_read(tiny: str, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "roofline.json"
    words = ["bench", "roofline", tiny, "--context", "8", "--repeats", "1", "--out", str(out)]
    assert main([*words, "--json"]) == 0
    found = document(capsys)
    assert found == json.loads(out.read_text(encoding="utf-8"))
    assert found["context"] == 8
    assert [row["rows"] for row in found["passes"]] == [1, 2, 4, 8, 16]
    assert found["kernel"] == found["provenance"]["model"]["kernel"]
    assert main(words) == 0
    assert "over read" in capsys.readouterr().out
    assert main(["bench", "roofline", tiny, "--context", "500"]) == 2
    assert "512 tokens" in capsys.readouterr().err


def test_options_go_to_the_drafter_that_is_named(tiny: str, capsys: Captured) -> None:
    words = ["bench", tiny, "--limit", "1", "--max-tokens", "4", "--drafters", "suffix,recycle"]
    assert (
        main([*words, "--drafter-option", "suffix.max_nodes=2", "--drafter-option", "recycle.shared=false"])
        == 0
    )
    capsys.readouterr()
    for option, says in {"lm.width=2": "DRAFTER.NAME=VALUE", "suffix.width=2": "'width'"}.items():
        assert main([*words, "--drafter-option", option]) == 2
        assert says in capsys.readouterr().err.replace("\n", " ")


def test_an_interrupted_benchmark_gives_the_prompts_it_has_finished(
    tiny: str, suite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answered = iter(range(1, 100))
    generate = DrafterContestant.generate

    def interrupted(self: DrafterContestant, *arguments: Any) -> Any:
        if next(answered) == 2 + 2 + 2:  # warmed up, one prompt answered by both, the next by one
            raise KeyboardInterrupt
        return generate(self, *arguments)

    monkeypatch.setattr(DrafterContestant, "generate", interrupted)
    out = tmp_path / "out.json"
    words = ["bench", tiny, "--suite", suite, "--max-tokens", "6", "--out", str(out), "--json"]
    assert main(words) == 130
    found = document(capsys)
    assert {row["id"] for row in found["prompts"]} == {"1"}
    assert found["suite"]["left_out"] == ["2", "3", "4"]
    assert json.loads(out.read_text())["results"] == found["results"]
