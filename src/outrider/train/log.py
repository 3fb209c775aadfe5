"""The log of a run: one JSON object a line, cut back to a checkpoint's length when the run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from outrider.errors import TrainingError
from outrider.train.files import flushed


class Log:
    """Appends lines after the first `keep` bytes of a file; TrainingError where the disk takes no more."""

    def __init__(self, path: Path, keep: int) -> None:
        self._path = path
        self._file = open(path, "ab")  # noqa: SIM115
        self._file.truncate(min(keep, path.stat().st_size))

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def bytes(self) -> int:
        """How long the log is."""
        return self._file.tell()

    def write(self, line: dict[str, Any]) -> None:
        """Add a line."""
        try:
            self._file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            raise self._full(error) from error

    def flush(self) -> None:
        """Have the disk hold all lines."""
        try:
            flushed(self._file)
        except OSError as error:
            raise self._full(error) from error

    def _full(self, error: OSError) -> TrainingError:
        return TrainingError(
            f"cannot write {str(self._path)!r} ({error.strerror}); make room, then continue with --resume"
        )
