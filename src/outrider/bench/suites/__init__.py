"""Suites of prompts: the package's own, and files in Spec-Bench's format or of plain prompts."""

from __future__ import annotations

from pathlib import Path

from outrider.bench.suites.reader import Prompt, Suite, SuiteFile, read_suite
from outrider.errors import LoadError
from outrider.registry import SUITES

OWN = SuiteFile("own", Path(__file__).with_name("own.jsonl"))
"""Short prompts written for this package: edit, code, summarization, qa, rag, math."""

__all__ = ["OWN", "Prompt", "Suite", "SuiteFile", "open_suite", "read_suite"]


def open_suite(name: str) -> Suite:
    """Return the prompts of a registered suite, or of a .jsonl or .txt file.

    A name that is neither raises UnknownNameError where it looks like a name and LoadError where it looks
    like a path.
    """
    path = Path(name)
    if path.is_file():
        return read_suite(path)
    if path.suffix or "/" in name or path.is_dir():
        raise LoadError(f"no such prompt file: {name!r}; give a .jsonl or .txt file, or a suite's name")
    suite: SuiteFile = SUITES.load(name)
    return suite.read()
