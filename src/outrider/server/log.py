"""The log: one JSON object a line, on stderr; no text of anyone's unless that is asked for."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import Any, TextIO

LOGGER = "outrider.server"


class JsonLines(logging.Formatter):
    """Writes a record as one JSON object: time, level, event, and what else it holds as `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        return json.dumps(line, separators=(",", ":"), default=str)


def set_up(out: TextIO | None = None) -> None:
    """Have the server's lines, and uvicorn's own, written as JSON."""
    handler = logging.StreamHandler(sys.stderr if out is None else out)
    handler.setFormatter(JsonLines())
    for name, level in ((LOGGER, logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def note(event: str, fields: dict[str, Any], level: int = logging.INFO) -> None:
    """Write a line."""
    logging.getLogger(LOGGER).log(level, event, extra={"fields": fields})


def failure(error: BaseException) -> dict[str, Any]:
    """Return what is logged of an error that nobody foresaw: its kind and where, not its words."""
    frames = traceback.extract_tb(error.__traceback__)[-12:]
    return {
        "error": type(error).__name__,
        "where": [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames],
    }
