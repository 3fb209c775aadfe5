"""Reads and writes a head's directory: config.json and one file of tensors."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from pathlib import Path

import torch
from torch import Tensor

from outrider.errors import HeadError
from outrider.heads.formats.spelling import HeadFiles, Written
from outrider.models.safetensors_source import INDEX, SINGLE, SafetensorsSource, read_json

CONFIG = "config.json"
PICKLED = "pytorch_model.bin"
MEDUSA, MEDUSA_PICKLED = "medusa_lm_head.safetensors", "medusa_lm_head.pt"
_OWN = {CONFIG, SINGLE, MEDUSA, MEDUSA_PICKLED}
"""Files that saving a head may replace."""


def read_files(directory: Path, dtype: torch.dtype | None) -> HeadFiles:
    """Read a head's directory; HeadError or another LoadError says what is missing or damaged."""
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        raise HeadError(f"{directory} {what}; give the directory that holds the head's {CONFIG} and weights")
    for weights in (SINGLE, INDEX, PICKLED, MEDUSA, MEDUSA_PICKLED):
        if (directory / weights).exists():
            break
    else:
        raise HeadError(
            f"{directory} holds no head: none of {SINGLE}, {INDEX}, {PICKLED}, {MEDUSA}, {MEDUSA_PICKLED} "
            "is there"
        )
    config = read_json(directory / CONFIG)
    if weights in (SINGLE, INDEX):
        source = SafetensorsSource(directory)
        tensors = {name: source.raw(name) for name in sorted(source.names())}
    elif weights == MEDUSA:
        tensors = _unpacked(directory / weights)
    else:
        tensors = _unpickled(directory / weights)
    return HeadFiles(directory, config, weights, tensors, dtype)


def write_files(directory: Path, written: Written) -> None:
    """Write a head's directory: beside it first, then in its place, so that nobody sees a part of it.

    HeadError where the place holds anything but a head that was saved before, or cannot be written.
    """
    if directory.exists():
        _check_replaceable(directory)
    beside = directory.with_name(f".{directory.name}.{time.time_ns()}")
    old = beside.with_suffix(".old")
    try:
        beside.mkdir(parents=True)
        _write_json(beside / CONFIG, written)
        _write_tensors(beside / written.weights, written.tensors)
        if directory.exists():
            directory.rename(old)
        try:
            beside.rename(directory)
        except OSError:
            if old.exists():
                old.rename(directory)
            raise
    except OSError as error:
        raise HeadError(f"the head cannot be written to {directory}: {error.strerror or error}") from error
    finally:
        for leftover in (beside, old):
            with contextlib.suppress(OSError):
                shutil.rmtree(leftover)


def _check_replaceable(directory: Path) -> None:
    if not directory.is_dir():
        raise HeadError(f"{directory} is a file; a head is saved as a directory")
    others = sorted(path.name for path in directory.iterdir() if path.name not in _OWN)
    if others:
        raise HeadError(
            f"{directory} holds other things ({', '.join(others[:3])}{', …' if len(others) > 3 else ''}), "
            "and saving a head there would remove them; choose another place"
        )


def _write_json(path: Path, written: Written) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(written.config, indent=2, allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    own = {name: tensor.detach().to("cpu").contiguous().clone() for name, tensor in tensors.items()}
    try:
        if path.name == MEDUSA_PICKLED:
            torch.save(own, path)
        else:
            save_file(own, path, metadata={"format": "pt"})
    except (SafetensorError, RuntimeError) as error:  # a full disk, among others
        raise OSError(str(error)) from error
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _unpacked(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise HeadError(f"{path} is damaged or cut short ({error}); download it again") from error
    return tensors


def _unpickled(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file of torch.save; nothing in it is run."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle fails in any way at all
        raise HeadError(
            f"{path} is damaged, or holds more than tensors, which is not read because it could run code "
            f"({type(error).__name__}); download it again or convert it to safetensors"
        ) from error
    if not isinstance(found, dict) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in found.items()
    ):
        raise HeadError(f"{path} must hold a table of tensors by name, not {type(found).__name__}")
    return found
