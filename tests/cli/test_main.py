from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider.cli.main import COMMANDS, main


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in COMMANDS)


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Usage: outrider" in capsys.readouterr().out


def test_help_of_every_command_comes_without_loading_torch() -> None:
    """People ask for help first; it must not wait for seconds of imports."""
    code = (
        "import sys; from outrider.cli.main import main\n"
        "assert all(main(words) == 0 for words in "
        "(['--help'], ['generate', '--help'], ['demo', '--help'], ['audit', '--help'], "
        "['bench', '--help'], ['bench', 'run', '--help'], ['bench', 'curve', '--help']))\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("outrider ")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["genrate"], 2, "did you mean 'generate'"),
        (["generate"], 2, "MODEL"),
        (["generate", "demo", "--temprature", "1"], 2, "--temperature"),
        (["generate", "demo", "--prompt"], 2, "--prompt"),
        (["generate", "demo", "--prompt", "x", "--max-tokens", "many"], 2, "--max-tokens"),
        (["generate", "demo", "--prompt", "x", "--max-tokens", "0"], 2, "--max-tokens"),
        (["generate", "demo", "--prompt", "x", "--budget", "-1"], 2, "--budget"),
        (["generate", "demo", "--prompt", "x", "--temperature", "-1"], 2, "temperature"),
        (["generate", "demo", "--prompt", "x", "--temperature", "nan"], 2, "temperature"),
        (["generate", "demo", "--prompt", "x", "--top-p", "0"], 2, "top_p"),
        (["generate", "demo", "--prompt", "x", "--top-p", "1.5"], 2, "top_p"),
        (["generate", "demo", "--prompt", "x", "--min-p", "2"], 2, "min_p"),
        (["generate", "demo", "--prompt", "x", "--top-k", "-3"], 2, "top_k"),
        (["generate", "demo", "--prompt", "x", "--drafter", "sufix"], 2, "did you mean 'suffix'"),
        (["generate", "demo", "--prompt", "x", "--rule", "gredy"], 2, "did you mean 'greedy'"),
        (["generate", "demo", "--prompt", ""], 2, "empty"),
        (["generate", "demo"], 2, "--prompt"),
        (["generate", "demo", "--prompt", "x", "--prompt-file", "y"], 2, "--prompt-file"),
        (["generate", "demo", "--prompt-file", "no/such/file"], 2, "no/such/file"),
        (["generate", "no/such/model.gguf", "--prompt", "x"], 1, "no/such/model.gguf"),
        (["bench"], 2, "outrider bench"),
        (["bench", "demo", "--sute", "own"], 2, "--suite"),
        (["bench", "crve", "demo"], 2, "unknown bench command 'crve'; did you mean 'curve'"),
        (["bench", "speed", "demo"], 2, "unknown bench command 'speed'; known: curve, load, roofline, run"),
        (["bench", "rooflin"], 2, "did you mean 'roofline'"),
        (["generate", "demo", "--prompt", "x", "--seed", "1", "--seed", "2"], 2, "--seed is given 2 times"),
        (["generate", "demo", "--prompt", "x", "--prompt=y"], 2, "--prompt is given 2 times"),
        (["generate", "demo", "--prompt", "x", "--json", "--json"], 2, "--json is given 2 times"),
        (["bench", "demo", "--chat", "--no-chat"], 2, "--chat/--no-chat is given 2 times"),
        (["bench", "curve", "demo", "--pass", "native", "--pass", "pytorch"], 2, "--pass is given 2 times"),
        (["audit", "demo", "--cases", "1", "--cases", "2"], 2, "--cases is given 2 times"),
        (["audit", "demo", "--option", "top_k=1", "--option", "top_k=2"], 2, "top_k is set already"),
        (["demo", "--seed", "1", "--seed", "1"], 2, "--seed is given 2 times"),
        (
            ["generate", "demo", "--prompt", "x", "--drafter", "SUFFIX"],
            2,
            "did you mean 'suffix'? known: auto, eagle,",
        ),
        (["generate", "demo", "--prompt", "x", "--drafter", "merged:"], 2, "needs two or more"),
        (["generate", "demo", "--prompt", "x", "--n", "1000000"], 2, "from 1 to 128"),
        (["bench", "demo", "--suite", "owm"], 2, "did you mean 'own'"),
        (["bench", "demo", "--suite", "no/such.jsonl"], 1, "no/such.jsonl"),
        (["bench", "demo", "--drafters", "none,sufix"], 2, "did you mean 'suffix'"),
        (["bench", "demo", "--out", "no/such/directory/file.json"], 2, "--out"),
        (["bench", "curve", "no/such/model"], 1, "no/such/model"),
        (["audit", "demo", "--rule", "exact"], 2, "exact"),
    ],
)
def test_bad_input_gives_one_line_and_its_exit_code(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    captured = capsys.readouterr()
    assert says in captured.err
    assert "Traceback" not in captured.err
    if words != ["bench"]:
        assert captured.err.startswith("error: ")
        assert captured.err.count("\n") == 1
        assert not captured.out


def test_a_fault_is_one_line_without_debug_and_a_traceback_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("outrider.llm.load", broken)
    words = ["generate", "demo", "--prompt", "x"]
    assert main(words) == 1
    assert capsys.readouterr().err == (
        "error: ZeroDivisionError: of all things; run again with --debug for the traceback\n"
    )
    assert main([*words, "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("OUTRIDER_DEBUG", "1")
    assert main(words) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_outside_a_generation_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("outrider.llm.load", interrupted)
    assert main(["generate", "demo", "--prompt", "x"]) == 130
    captured = capsys.readouterr()
    assert captured.err.endswith("interrupted\n")
    assert "Traceback" not in captured.err
    assert not captured.out


@pytest.mark.parametrize("place", ["outrider.llm.load", "outrider.sampling.params.SamplingParams"])
def test_an_interrupt_before_anything_is_generated_leaves_a_document_too(
    place: str, tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while the model was loaded printed nothing, although a document is promised with --json."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def shape(value: Any) -> Any:
        return {name: shape(inner) for name, inner in value.items()} if isinstance(value, dict) else None

    words = ["generate", tiny, "--prompt", "x", "--json", "--seed", "7", "--max-tokens", "1"]
    assert main(words) == 0
    whole = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(place, interrupted)
    assert main(words) == 130
    captured = capsys.readouterr()
    assert captured.err.endswith("interrupted\n")
    found = json.loads(captured.out)
    assert shape(found) == shape(whole)
    assert (found["finish_reason"], found["token_ids"], found["seed"]) == ("abort", [], 7)


def test_the_module_runs_like_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "outrider", "generate", str(tmp_path / "none.gguf"), "--prompt", "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
