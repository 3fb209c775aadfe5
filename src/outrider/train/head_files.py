"""A trained head's files, put into a directory that holds the run as well."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from outrider.errors import HeadError, TrainingError
from outrider.heads.exchange import save_head
from outrider.heads.formats.spelling import Head
from outrider.train.run import INSIDE


def export_head(head: Head, directory: Path, spelling: str, *, target: str, architecture: str) -> None:
    """Save a head in a spelling of `HEAD_SPELLINGS`: made whole inside of the run, then moved into place."""
    beside = directory / INSIDE / "export"
    try:
        save_head(head, beside, spelling, target=target, target_architecture=architecture)
        for file in sorted(beside.iterdir(), key=lambda path: path.suffix == ".json"):
            os.replace(file, directory / file.name)  # config.json last: with it the head is complete
    except (OSError, HeadError) as error:
        raise TrainingError(
            f"the head could not be written ({error}); the checkpoint is complete, so continue with --resume"
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
