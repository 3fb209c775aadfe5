"""A file of packed matrices, which processes map and so share.

The first page says what the file is and where its table lies; the matrices follow, each at the beginning of
a page, then the table (JSON). A file gets its name once all of it is on the disk, so a crash, a full disk or
two writers at once never leave a broken one behind that name.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import mmap
import os
import secrets
import struct
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from outrider.native import _core

VERSION = 2
TEMPORARY = ".tmp"
_MAGIC = b"OUTRPACK"
_HEAD = struct.Struct("<8sIIQQ32s")
"""Magic, version, bytes of the table, its offset, bytes of the file, SHA-256 of the table."""
_PAGE = 4096
# Linux can keep a file in huge pages, and map them as such, where it was written in pieces of at least 2 MiB.
_CHUNK = 8 << 20
_POPULATE_READ = 22  # Linux's MADV_POPULATE_READ, which Python has no name for

Named = tuple[str, _core.Matrix]


@dataclass(frozen=True, slots=True)
class Packed:
    """The matrices of a file, mapped, and what there was to say when they were packed."""

    matrices: dict[str, _core.Matrix]
    notices: list[str]


def read_packed(path: Path, key: str) -> Packed | None:
    """Map a file; None where there is none, or it is damaged, of another version or for another key."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    table = _table(data)
    if table is None or table["key"] != key:
        return None
    _fetch(data)
    for *_, offset, nbytes, check in table["matrices"]:
        if _sum(np.frombuffer(data, np.uint64, nbytes // 8, offset)) != check:
            return None
    try:
        matrices = {
            name: _core.matrix_over(
                np.frombuffer(data, np.uint8, nbytes, offset), kind, outputs, inputs, largest
            )
            for name, kind, outputs, inputs, largest, offset, nbytes, _ in table["matrices"]
        }
    except ValueError:
        return None
    return Packed(matrices, table["notices"])


def write_packed(path: Path, key: str, matrices: Iterable[Named], notices: list[str]) -> Packed:
    """Write matrices, each as it comes, and return them mapped; OSError where they cannot be written.

    `notices` are read when the last matrix has come. The matrices are never in memory together, and are
    mapped before the file has its name: a thread gives it that when the disk has it all.
    """
    temporary = path.with_name(f"{path.stem}-{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY}")
    try:
        with temporary.open("xb", buffering=0) as file:
            _write(file, key, matrices, notices)
        packed = read_packed(temporary, key)
        if packed is None:
            raise OSError(errno.EIO, "what was written cannot be read")
    except BaseException:
        _remove(temporary)
        raise
    threading.Thread(target=_publish, args=(temporary, path), name=f"publish {path.name}").start()
    return packed


def _write(file: BinaryIO, key: str, matrices: Iterable[Named], notices: list[str]) -> None:
    rows: list[tuple[str, str, int, int, float, int, int, int]] = []
    with _Writer(file) as out:
        out.write(bytes(_PAGE))
        for name, m in matrices:
            offset = out.write(m.panels())
            check = _sum(np.frombuffer(m.panels(), np.uint64))
            rows.append((name, m.format, m.outputs, m.inputs, m.largest, offset, m.nbytes, check))
        table = json.dumps({"key": key, "notices": notices, "matrices": rows}).encode()
        offset = out.write(table)
        out.finish()
    head = _HEAD.pack(
        _MAGIC, VERSION, len(table), offset, offset + len(table), hashlib.sha256(table).digest()
    )
    file.seek(0)
    file.write(head)


def _table(data: mmap.mmap) -> dict[str, Any] | None:
    """Return the table of a file; None where head, table and size don't fit together."""
    if len(data) < _PAGE:
        return None
    magic, version, nbytes, offset, size, digest = _HEAD.unpack_from(data)
    if (magic, version, size) != (_MAGIC, VERSION, len(data)):
        return None
    table = data[offset : offset + nbytes]
    if hashlib.sha256(table).digest() != digest:
        return None
    found: dict[str, Any] = json.loads(table)
    return found


def _sum(words: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> int:
    """Return the sum of 64-bit words modulo 2^64: as fast as memory, and any one change of a word shows."""
    return int(words.sum(dtype=np.uint64))


def _fetch(data: mmap.mmap) -> None:
    """Have every page in memory and in the page table, so that the first pass doesn't wait for them."""
    if sys.platform == "linux":
        for advice in (mmap.MADV_HUGEPAGE, _POPULATE_READ):
            with contextlib.suppress(OSError):  # an older kernel
                data.madvise(advice)


def _publish(temporary: Path, path: Path) -> None:
    try:
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        _remove(temporary)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


class _Writer:
    """Writes large pieces that begin at multiples of their size, each while the next is filled."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._chunk, self._other = (memoryview(bytearray(_CHUNK)) for _ in range(2))
        self._filled = self._offset = 0
        self._thread = ThreadPoolExecutor(1, "write packed weights")
        self._writing: Future[None] | None = None

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()

    def write(self, data: Any) -> int:
        """Append bytes at the beginning of a page and return their offset."""
        self._append(memoryview(bytes(-self._offset % _PAGE)))
        offset = self._offset
        self._append(memoryview(data))
        return offset

    def finish(self) -> None:
        """Return when all is written."""
        self._flush()
        self._settle()

    def _append(self, data: memoryview) -> None:
        self._offset += len(data)
        while data:
            part = data[: _CHUNK - self._filled]
            self._chunk[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            data = data[len(part) :]
            if self._filled == _CHUNK:
                self._flush()

    def _flush(self) -> None:
        self._settle()
        self._writing = self._thread.submit(self._hand_over, self._chunk[: self._filled])
        self._chunk, self._other, self._filled = self._other, self._chunk, 0

    def _settle(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def _hand_over(self, data: memoryview) -> None:
        while data:
            data = data[self._file.write(data) :]
