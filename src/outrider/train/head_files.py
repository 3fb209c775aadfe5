"""A trained head's files, put into a directory that holds the run as well."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from outrider.errors import HeadError, OptionError, TrainingError
from outrider.heads.exchange import save_head
from outrider.heads.formats.spelling import ForTarget, Head
from outrider.registry import HEAD_SPELLINGS
from outrider.train.run import INSIDE


def check_spelling(spelling: str, kind: str) -> None:
    """Refuse a spelling of another kind of head: OptionError, or UnknownNameError for none at all."""
    found = HEAD_SPELLINGS.load(spelling).kind
    if found != kind:
        known = [name for name in HEAD_SPELLINGS if HEAD_SPELLINGS.load(name).kind == kind]
        raise OptionError(f"{spelling!r} is for {found} heads; use {', '.join(known)}")


def check_writable(head: Head, spelling: str, *, target: str, architecture: str) -> None:
    """Refuse, before it is trained, a head that this spelling cannot say: HeadError."""
    HEAD_SPELLINGS.load(spelling).write(head, ForTarget(target, architecture))


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
