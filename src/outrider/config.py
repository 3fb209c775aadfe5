"""What the environment decides: where files are kept between runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CACHE_VARIABLE = "OUTRIDER_CACHE"
"""Environment variable: a directory for what is kept between runs, or "off"."""


def cache_directory(kind: str) -> Path | None:
    """Return where files of one kind are kept; None where nothing is to be kept, or there is no home."""
    named = os.environ.get(CACHE_VARIABLE, "")
    if named.lower() == "off":
        return None
    if named:
        return Path(os.path.expanduser(named)) / kind  # unlike Path.expanduser, never an error
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "outrider" / kind
