"""Keeps packed weights on disk: where they lie, how much room they may take, which go first."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
from pathlib import Path

from outrider.config import CACHE_VARIABLE, cache_directory
from outrider.native import _core
from outrider.native.packed import TEMPORARY, read_packed, write_packed
from outrider.native.weights import Packer

MOST_BYTES = 16 << 30
MOST_SHARE = 0.25
"""Of the disk space that would be free without the files."""
FEWEST_PARAMETERS = 16_000_000
"""Smaller models are packed in an instant."""
_SUFFIX = ".packed"
_ABANDONED_SECONDS = 3600.0


def matrices_of(packer: Packer) -> dict[str, _core.Matrix]:
    """Return a model's matrices: mapped from disk where an earlier run left them, else packed.

    What is packed is left on disk for the next run and for other processes, unless the variable says "off",
    the model is small or does not come from files, or the disk has no room; a word about that goes to the
    packer's notices only where the user named the directory.
    """
    place, fingerprint = cache_directory("packed"), packer.source.fingerprint()
    if place is None or fingerprint is None or packer.parameters < FEWEST_PARAMETERS:
        return dict(packer.matrices())
    key = json.dumps({"core": _core_digest(), "weights": packer.weights, "files": fingerprint})
    path = place / (hashlib.sha256(key.encode()).hexdigest()[:32] + _SUFFIX)
    kept = read_packed(path, key)
    if kept is None or kept.matrices.keys() != set(packer.names):
        return _packed_anew(packer, path, key)
    if kept.notices and not packer.may_widen:
        return dict(packer.matrices())  # some are wider than was asked for, which is an error
    with contextlib.suppress(OSError):
        os.utime(path)
    packer.notices += kept.notices
    return kept.matrices


def _packed_anew(packer: Packer, path: Path, key: str) -> dict[str, _core.Matrix]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # damaged
        _make_room(path.parent, packer.expected_bytes())
        kept = write_packed(path, key, packer.matrices(), packer.notices)
    except OSError as error:
        packer.notices.clear()
        if os.environ.get(CACHE_VARIABLE):
            reason = error.strerror or error
            packer.notices.append(f"packed weights are not kept in {path.parent}: {reason}")
        return dict(packer.matrices())
    return kept.matrices


def _core_digest() -> str:
    """Return what tells one build of the core from another: each may lay weights out in its own way."""
    return hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()


def _make_room(place: Path, nbytes: int) -> None:
    """Remove files, those unused for longest first, until `nbytes` more may be written; OSError if never."""
    for leftover in place.glob(f"*{TEMPORARY}"):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > _ABANDONED_SECONDS:
                leftover.unlink()
    files: list[tuple[float, int, Path]] = []
    for path in place.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            found = path.stat()
            files.append((found.st_mtime, found.st_size, path))
    total = sum(size for _, size, _ in files)
    allowed = min(MOST_BYTES, int(MOST_SHARE * (shutil.disk_usage(place).free + total)))
    if nbytes > allowed:
        raise OSError(errno.ENOSPC, f"they take {nbytes} bytes, and at most {allowed} may be taken")
    for _, size, path in sorted(files):
        if total + nbytes <= allowed:
            break
        path.unlink(missing_ok=True)
        total -= size
