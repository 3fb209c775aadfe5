"""`outrider serve` really serves, says where, and ends when it is told to."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from outrider.cli.main import main

Captured = pytest.CaptureFixture[str]


def test_it_serves_with_a_key_from_the_environment_and_ends_at_a_signal(tiny: str) -> None:
    for package in ("fastapi", "uvicorn", "prometheus_client", "httpx"):
        pytest.importorskip(package)
    import httpx

    words = ["serve", tiny, "--port", "0", "--name", "mine", "--drafter", "suffix", "--max-memory", "0.1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "outrider", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OUTRIDER_API_KEY": "sk-1"},
    )
    try:
        assert process.stderr is not None
        said = [json.loads(process.stderr.readline())]
        while said[-1]["event"] != "listening":
            said.append(json.loads(process.stderr.readline()))
        with httpx.Client(base_url=said[-1]["url"], trust_env=False, timeout=120) as client:
            body = {"model": "mine", "prompt": "abcabc", "max_tokens": 8, "temperature": 0}
            assert client.post("/completions", json=body).status_code == 401
            answer = client.post("/completions", json=body, headers={"Authorization": "Bearer sk-1"}).json()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        events = [json.loads(line)["event"] for line in process.stderr.read().splitlines()]
        assert events[-1] == "ended"
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
    import outrider

    expected = outrider.load(tiny).generate("abcabc", max_tokens=8)
    assert answer["choices"][0]["text"] == expected.text


def test_a_port_that_is_taken_fails_before_a_model_is_loaded(capsys: Captured) -> None:
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        pytest.importorskip(package)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "/nowhere", "--port", str(port)]) == 2
    assert f"port {port}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--api-key", ""], "API key"),
        (["--max-memory", "-1"], "--max-memory"),
        (["--max-memory", "nan"], "--max-memory"),
        (["--max-body", "0"], "--max-body"),
        (["--timeout", "0"], "timeout"),
        (["--drain", "-1"], "drain"),
        (["--name", ""], "name"),
        (["--drafter", "nope"], "nope"),
        (["--rule", "typical"], "lossy"),
        (["--host", "no.such.host.invalid"], "cannot listen"),
    ],
)
def test_what_cannot_be_is_refused_before_a_model_is_loaded(
    words: list[str], said: str, capsys: Captured
) -> None:
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        pytest.importorskip(package)
    assert main(["serve", "/nowhere", "--port", "0", *words]) == 2
    assert said in capsys.readouterr().err


def test_without_its_packages_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "fastapi" else found(name, *more)
    )
    assert main(["serve", "demo"]) == 2
    assert "fastapi>=0.115" in capsys.readouterr().err
