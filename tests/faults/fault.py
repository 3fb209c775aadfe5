"""What a fault is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "outrider"


@dataclass(frozen=True)
class Fault:
    """A fault in words, the edits that put it in, and a test that fails then.

    An edit is (file under src/outrider, text that stands there once, what stands in its place).
    """

    what: str
    edits: tuple[tuple[str, str, str], ...]
    test: str
    """Node id below tests/, maybe with the parameters of one case."""

    @property
    def files(self) -> dict[str, list[tuple[str, str]]]:
        """The edits by file."""
        found: dict[str, list[tuple[str, str]]] = {}
        for file, old, new in self.edits:
            found.setdefault(file, []).append((old, new))
        return found

    def faulty(self, file: str) -> str:
        """Return the source of a file with the fault in it."""
        text = (SOURCE / file).read_text(encoding="utf-8")
        for old, new in self.files[file]:
            assert text.count(old) == 1, f"{self.what}: {file} does not hold once: {old}"
            text = text.replace(old, new)
        return text


def fault(what: str, file: str, old: str, new: str, *, test: str) -> Fault:
    """Return a fault of a single edit."""
    return Fault(what, ((file, old, new),), test)
