"""What a command has printed with --json."""

from __future__ import annotations

import json
from typing import Any

import pytest

Captured = pytest.CaptureFixture[str]


def document(capsys: Captured) -> dict[str, Any]:
    """Return the one document that stands on stdout, with nothing beside it."""
    [line] = capsys.readouterr().out.splitlines()
    parsed: dict[str, Any] = json.loads(line)
    return parsed
