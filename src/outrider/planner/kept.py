"""Measurements as small JSON files, named by what they depend on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def path_of(directory: Path, subject: Mapping[str, object]) -> Path:
    """Return the file for a subject."""
    key = json.dumps(dict(subject), sort_keys=True)
    return directory / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def read(path: Path | None) -> Any:
    """Return what a file holds; None where there is none, or where it is no JSON."""
    if path is None:
        return None
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    return None


def write(path: Path | None, found: Mapping[str, object]) -> None:
    """Keep a measurement; a disk that takes nothing costs only the next one."""
    if path is None:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{time.time_ns()}")
        temporary.write_text(json.dumps(dict(found)), encoding="utf-8")
        temporary.replace(path)
