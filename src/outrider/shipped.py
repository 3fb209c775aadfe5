"""Drafters that come with outrider: a trained head for the demo model, and how it was made."""

from __future__ import annotations

from pathlib import Path

from outrider.models.locate import DEMO

HEADS = Path(__file__).parent / "heads" / "shipped"
"""Beside each head, `made.json` says for which target, from what and by which commands it was made."""


def head_directory(name: str) -> Path:
    """Return where a head is: "demo" is the one for the demo model, anything else a directory."""
    return HEADS / DEMO if name == DEMO else Path(name).expanduser()
