"""Loads a model while someone waits, and passes on what the loader noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console

from outrider.models.base import LoadedModel

if TYPE_CHECKING:
    from outrider.llm import LLM


def load_llm(model: str, notes: Console, **options: Any) -> LLM:
    """Do what `outrider.load` does, with a word about it on `notes`."""
    import outrider

    with notes.status(f"loading {model}"):
        llm: LLM = outrider.load(model, **options)
    announce(llm.model, notes)
    return llm


def announce(model: LoadedModel, notes: Console) -> None:
    """Print what the loader noticed about a model: a slower path, weights that did not fit."""
    for notice in model.details.get("notices", ()):
        notes.print(f"note: {notice}")
