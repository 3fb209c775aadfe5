from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.cli.main import main
from printed import Captured, document

SHORT = ["--budget", "4", "--context", "8"]


def test_a_plan_holds_every_length_at_every_batch(tiny: str, capsys: Captured) -> None:
    assert main(["plan", tiny, "--acceptance", "0.9,0.5", "--batch", "4,1,4", *SHORT, "--json"]) == 0
    found = document(capsys)
    assert [(row["batch"], row["length"]) for row in found["forecasts"]] == [
        (batch, length) for batch in (1, 4) for length in range(5)
    ]
    assert found["forecasts"][2]["tokens"] == pytest.approx(1 + 0.9 + 0.45)
    assert found["acceptance"] == {"source": "given", "by_depth": [[0.9], [0.5]]}
    assert found["draft_latency"] is None


def test_a_draft_model_is_timed_and_its_passes_count(tiny: str, capsys: Captured) -> None:
    words = ["plan", tiny, "--drafter", f"lm:{tiny}", "--acceptance", "0.9", "--batch", "2", *SHORT]
    assert main([*words, "--json"]) == 0
    found = document(capsys)
    draft, [best] = found["draft_latency"], found["best"]
    assert draft["rows"][0] == 1
    two = draft["milliseconds"][draft["rows"].index(2)] + (draft["per_key"] + draft["per_cached"]) * 2 * 8
    assert best["draft_milliseconds"] == pytest.approx(two)


def test_acceptance_comes_from_a_result_of_the_benchmark(tiny: str, tmp_path: Path, capsys: Captured) -> None:
    suite, result = tmp_path / "suite.jsonl", tmp_path / "result.json"
    suite.write_text('{"prompt": "abcabcabcabcabc"}', encoding="utf-8")
    words = ["bench", tiny, "--suite", str(suite), "--max-tokens", "24", "--ignore-eos", "--fill-budget"]
    assert main([*words, "--json", "--out", str(result)]) == 0
    row = next(row for row in document(capsys)["results"] if row["drafter"] == "suffix")
    assert main(["plan", tiny, "--from", str(result), *SHORT, "--json"]) == 0
    found = document(capsys)["acceptance"]
    assert found["source"] == "result.json"
    first = row["accepted_per_position"][0] / row["drafted_per_position"][0]
    assert found["by_depth"][0] == [pytest.approx(first)]


def test_people_get_tables_and_the_files_they_asked_for(tiny: str, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "plan.json"
    assert main(["plan", tiny, "--acceptance", "0.7", *SHORT, "--out", str(out)]) == 0
    assert "speed-up of suffix" in capsys.readouterr().out
    assert json.loads(out.read_text(encoding="utf-8"))["schema"]["name"] == "outrider.plan"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--acceptance"),
        (["--acceptance", "0.7", "--from", "r.json"], "give one of"),
        (["--acceptance", "2"], "from 0 to 1"),
        (["--acceptance", "0.7", "--batch", "1,0"], "not a whole number above 0"),
        (["--acceptance", "0.7", "--batch", ","], "holds no number"),
        (["--acceptance", "0.7", "--drafter", "sufix"], "suffix"),
        (["--acceptance", "0.7", "--drafter", "layerskip"], "measure it with outrider bench"),
        (["--acceptance", "0.7", "--plot", "plan.gif"], ".png or .html"),
        (["--acceptance", "0.7", "--out", "none/plan.json"], "no directory"),
        (["--acceptance", "0.7", "--plot", "none/plan.png"], "--plot: there is no directory"),
        (["--acceptance", "0.7", "--context", "511"], "room for --context 496"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_what_to_do(
    words: list[str], said: str, tiny: str, capsys: Captured
) -> None:
    assert main(["plan", tiny, *words]) == 2
    [line] = capsys.readouterr().err.splitlines()[-1:]
    assert line.startswith("error:")
    assert said in line
