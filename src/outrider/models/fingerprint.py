"""What tells one file from another without reading it."""

from __future__ import annotations

import os
from pathlib import Path


def fingerprint(path: Path, found: os.stat_result) -> str:
    """Return a text that changes when the file does: its place, size and times.

    The time of the last change of its status is among them, because unpacking and copying can give a new file
    the size and the modification time of the old one.
    """
    return f"{path.resolve()} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
