"""What the commands under `outrider bench` share: lists of names, and where results go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from outrider.errors import OptionError


def listed_names(text: str) -> list[str]:
    """Return the names in a list with commas, each once."""
    return list(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def check_out(out: Path | None, option: str = "--out") -> None:
    """Refuse a result file that cannot be written before anything is measured for it."""
    if out is not None and not out.parent.is_dir():
        raise OptionError(f"{option}: there is no directory {str(out.parent)!r}; create it first")


def finish(
    document: dict[str, Any], out: Path | None, as_json: bool, tables: Callable[[], Sequence[Any]]
) -> None:
    """Write the document where that was asked for, and print it or its tables."""
    from outrider.bench.result import write_document
    from outrider.cli import terminal
    from outrider.cli.documents import one_line

    if out is not None:
        write_document(document, out)
    if as_json:
        print(one_line(document), flush=True)
    else:
        for table in tables():
            terminal.console().print(table)
