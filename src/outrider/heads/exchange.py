"""Loads a head from the files of any program that is known, and saves it as any of them reads it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from outrider.errors import HeadError
from outrider.heads.formats.files import read_files, write_files
from outrider.heads.formats.spelling import ForTarget, Head, HeadFiles, Spelling
from outrider.heads.formats.tensors import some
from outrider.registry import HEAD_SPELLINGS


class LoadedHead(NamedTuple):
    """A head, the name of the spelling that its files are in, and what a user should know about them."""

    head: Head
    spelling: str
    notes: tuple[str, ...]


def load_head(path: str | Path, *, dtype: torch.dtype | None = torch.float32) -> LoadedHead:
    """Load the head in a directory, whichever program wrote it; on the CPU.

    Weights are turned into `dtype`; None keeps the type of the file, the widest where there are several.
    Every tensor of the file is used, and none is made up: HeadError, or another LoadError, says what is
    missing, unknown, damaged or contradictory, or which kind of head is not supported.
    """
    files = read_files(Path(path), dtype)
    spelling = _spelling_of(files)
    head = spelling.load(files)
    return LoadedHead(head, spelling.name, tuple(files.notes))


def save_head(
    head: Head, path: str | Path, spelling: str, *, target: str = "", target_architecture: str = ""
) -> None:
    """Save a head as a directory in one of the spellings of `HEAD_SPELLINGS`, all of it or nothing.

    `target` names the model it drafts for, which some spellings must say, and `target_architecture` its
    class in transformers. A head that was saved at `path` before is replaced. UnknownNameError for a
    spelling that is not known. HeadError for a head that cannot be said exactly in this spelling, and for a
    place that holds other things or cannot be written.
    """
    chosen: Spelling = HEAD_SPELLINGS.load(spelling)
    if chosen.kind != head.kind:
        raise HeadError(f"{spelling!r} is a spelling of {chosen.kind} heads; this is an {head.kind} head")
    written = chosen.write(head, ForTarget(target, target_architecture))
    write_files(Path(path).resolve(), written)


def _spelling_of(files: HeadFiles) -> Spelling:
    for name in HEAD_SPELLINGS:
        spelling: Spelling = HEAD_SPELLINGS.load(name)
        if spelling.recognises(files):
            return spelling
    raise HeadError(
        f"{files.directory} holds no head of a known spelling ({', '.join(HEAD_SPELLINGS)}): its config.json "
        f"says model_type {files.config.get('model_type')!r}, and {files.weights} holds "
        f"{some(sorted(files.tensors))}"
    )
