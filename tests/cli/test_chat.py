"""`outrider chat` holds a conversation: what was said goes on, commands act, Ctrl-C ends one answer."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import outrider
from outrider.cli.main import main

Captured = pytest.CaptureFixture[str]
WORDS = ["--drafter", "suffix", "--max-tokens", "12"]


def chat(monkeypatch: pytest.MonkeyPatch, model: str, text: str, *words: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    return main(["chat", model, *WORDS, *words])


def bare(text: str) -> str:
    """Return a text without the marks of origins, and without what no console prints."""
    return text.translate(str.maketrans("", "", "[]{}<>\a\b\v\f\r"))


def told(*said: str) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[index % 2], "content": text} for index, text in enumerate(said)]


def test_an_answer_follows_from_all_that_was_said(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert chat(monkeypatch, tiny, "abcabc\nxyz\n") == 0
    llm = outrider.load(tiny)
    first = llm.generate(told("abcabc"), max_tokens=12).text
    second = llm.generate(told("abcabc", first, "xyz"), max_tokens=12).text
    shown = capsys.readouterr()
    assert bare(shown.out) == bare(f"{first}\n{second}\n")
    assert shown.err.count("suffix + greedy") == 2


def test_a_new_chat_knows_nothing_of_the_one_before_but_what_the_model_was_told_first(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert chat(monkeypatch, tiny, "abcabc\n/new\nxyz\n", "--system", "be kind") == 0
    system = {"role": "system", "content": "be kind"}
    llm = outrider.load(tiny)
    texts = [llm.generate([system, *told(text)], max_tokens=12).text for text in ("abcabc", "xyz")]
    assert bare(capsys.readouterr().out) == bare("".join(f"{text}\n" for text in texts))


def test_the_drafter_is_turned_off_and_on_again(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    text = "abcabc\n/new\n/drafter off\nabcabc\n/new\n/drafter on\nabcabc\n"
    assert chat(monkeypatch, tiny, text) == 0
    shown = capsys.readouterr()
    lines = [line for line in shown.err.splitlines() if " tokens (" in line]
    assert ["none + greedy" in line for line in lines] == [False, True, False]
    answers = bare(shown.out)
    assert answers == answers[: len(answers) // 3] * 3, "the text is the same"


def test_an_unknown_command_is_told_and_two_slashes_send_one(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert chat(monkeypatch, tiny, "/nope\n//abc\n/quit\nnever\n") == 0
    shown = capsys.readouterr()
    assert "no such command: /nope" in shown.err
    assert bare(shown.out) == bare(outrider.load(tiny).generate(told("/abc"), max_tokens=12).text + "\n")


def test_a_message_that_cannot_be_answered_is_told_and_forgotten(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert chat(monkeypatch, tiny, f"{'z' * 600}\nabcabc\n") == 0
    shown = capsys.readouterr()
    assert "error: the prompt has" in shown.err
    assert bare(shown.out) == bare(outrider.load(tiny).generate(told("abcabc"), max_tokens=12).text + "\n")


SLOW = """
import sys, time
from outrider.engine.engine import Engine
step = Engine.step
Engine.step = lambda engine: time.sleep(0.1) or step(engine)
from outrider.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(tmp_path: Path, tiny: str) -> None:
    """On a real terminal, with an engine that takes its time."""
    (tmp_path / "slow.py").write_text(SLOW)
    words = ["chat", tiny, "--drafter", "none", "--max-tokens", "400"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "slow.py"), *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "dumb"},
        # A shell's background jobs ignore interrupts, and hand that on to what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    os.close(theirs)
    said = ""

    def until(pattern: str) -> None:
        """Read until a pattern is found behind what was said before."""
        nonlocal said
        begin, deadline = len(said), time.monotonic() + 240
        while not re.search(pattern, said[begin:], re.DOTALL):
            assert time.monotonic() < deadline, said
            if select.select([ours], [], [], 1)[0]:
                said += os.read(ours, 65536).decode(errors="replace")

    try:
        until("> $")
        os.write(ours, b"abcabc\n")
        until("abcabc\r?\n.{8}")
        process.send_signal(signal.SIGINT)
        until(r"\(abort\).*> $")
        os.write(ours, b"/quit\n")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
