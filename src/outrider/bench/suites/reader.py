"""Reads prompts from JSON lines (Spec-Bench's fields, or plain prompts) and from text files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.errors import LoadError

MT_BENCH = frozenset(
    {"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"}
)
"""The categories of MT-bench; together they are one task."""
MT_TASK = "mt"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: its task and the user's turns."""

    id: str
    category: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    """Prompts of several tasks, in the order of the file."""

    name: str
    prompts: tuple[Prompt, ...]

    def limited(self, limit: int | None) -> Suite:
        """Return the suite with at most the first `limit` prompts of each task."""
        if limit is None:
            return self
        taken: dict[str, int] = {}
        kept = []
        for prompt in self.prompts:
            taken[prompt.category] = taken.get(prompt.category, 0) + 1
            if taken[prompt.category] <= limit:
                kept.append(prompt)
        return Suite(self.name, tuple(kept))


@dataclass(frozen=True, slots=True)
class SuiteFile:
    """A registered suite: its name and the file that holds it."""

    name: str
    path: Path

    def read(self) -> Suite:
        """Return its prompts; LoadError names a malformed line."""
        return read_suite(self.path, name=self.name)


def read_suite(path: Path, *, name: str | None = None) -> Suite:
    """Read a prompt file.

    A .txt file holds one prompt a line, empty lines left out. Any other file holds one JSON object a line:
    either Spec-Bench's `question_id`, `category` and `turns` (https://github.com/hemingkx/Spec-Bench), or
    `prompt`, with `category` and `id` if wanted. LoadError names the line that is neither.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"cannot read prompts from {str(path)!r}: {error}") from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if path.suffix == ".txt":
        prompts = [Prompt(str(number), "prompts", (line,)) for number, line in numbered]
    else:
        prompts = list(_prompts(numbered, path))
    if not prompts:
        raise LoadError(f"no prompts in {str(path)!r}; it is empty")
    return Suite(name or path.stem, tuple(prompts))


def _prompts(lines: Iterable[tuple[int, str]], path: Path) -> Iterator[Prompt]:
    for number, line in lines:
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise _malformed(path, number, f"this is not JSON ({error.msg})") from error
        if not isinstance(row, dict):
            raise _malformed(path, number, "a JSON object is wanted")
        yield _prompt(path, number, row)


def _prompt(path: Path, number: int, row: dict[str, Any]) -> Prompt:
    turns = row.get("turns", [row["prompt"]] if "prompt" in row else None)
    if not isinstance(turns, list) or not turns or not all(isinstance(t, str) and t for t in turns):
        raise _malformed(path, number, 'it needs "turns" (a list of texts) or "prompt" (a text)')
    category = row.get("category", "prompts")
    if not isinstance(category, str) or not category or category == "overall":
        raise _malformed(path, number, '"category" must be a text, and not "overall"')
    task = MT_TASK if category in MT_BENCH else category
    return Prompt(str(row.get("question_id", row.get("id", number))), task, tuple(turns))


def _malformed(path: Path, number: int, what: str) -> LoadError:
    return LoadError(f"{str(path)!r}, line {number}: {what}; mend or remove the line")
