"""Files that are whole or not there: written beside their place, made to last, then given their name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from outrider.errors import TrainingError


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Have `write` make a file under another name beside `path`, then put it in place.

    Whatever happens, `path` holds what it held before or all of the new. TrainingError where the disk is full
    or cannot be written.
    """
    beside = path.with_name(f"{path.name}.part")
    try:
        try:
            write(beside)
            with open(beside, "rb") as file:
                os.fsync(file.fileno())
            os.replace(beside, path)
            _last(path.parent)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise TrainingError(_no_room(path, error)) from error
    except RuntimeError as error:  # what torch raises where its writer meets a full disk
        raise TrainingError(_no_room(path, error)) from error


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_whole(path, lambda beside: beside.write_bytes(text.encode()))


def flushed(file: BinaryIO) -> None:
    """Have the disk hold what was written to an open file."""
    file.flush()
    os.fsync(file.fileno())


def _last(directory: Path) -> None:
    """Have a renaming last, where the system can say so of directories."""
    if os.name == "posix":
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _no_room(path: Path, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
    before = "what it held before is untouched" if path.exists() else "it was not made"
    return f"cannot write {str(path)!r} ({reason}): {before}; make room, then continue with --resume"
