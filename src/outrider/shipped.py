"""Drafters that come with outrider: a trained head for the demo model, and how it was made."""

from __future__ import annotations

from pathlib import Path

from outrider.models.base import LoadedModel
from outrider.models.locate import DEMO
from outrider.models.safetensors_source import read_json

HEADS = Path(__file__).parent / "heads" / "shipped"
MADE = "made.json"
"""Beside each head: for which target, from what, by which commands, and what was measured."""


def head_directory(name: str) -> Path:
    """Return where a head is: "demo" is the one for the demo model, anything else a directory."""
    return HEADS / DEMO if name == DEMO else Path(name).expanduser()


def head_for(target: LoadedModel) -> str | None:
    """Return the name of the head that was trained for this very target; None where none comes with it."""
    made = read_json(HEADS / DEMO / MADE)
    return DEMO if target.details.get("source") == made["target"] else None
