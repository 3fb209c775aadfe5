"""Texts that a target wrote, kept so that a kill at any moment costs at most the last few.

A store is a directory: `store.json` says what it holds, and numbered shards hold records one after the other.
A record is one candidate prompt in order: its text as token ids with the ranges that the target wrote, or
nothing where the candidate was passed over. Records are only ever appended.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from outrider.errors import LoadError, OptionError, TrainingError
from outrider.models.safetensors_source import read_json
from outrider.train.files import flushed, write_json

HEADER = "store.json"
SCHEMA = {"name": "outrider.train.store", "version": 1}
SHARD_RECORDS = 256
"""Records of a full shard; only the last shard of a store may hold fewer."""
_PREFIX = struct.Struct("<III")
"""Of a record: bytes of what follows, their CRC-32, and the record's number."""


@dataclass(frozen=True, slots=True)
class Example:
    """A text of token ids; `spans` are the ranges `[start, end)` that the target wrote, in order."""

    tokens: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        edges = [edge for span in self.spans for edge in span]
        assert edges == sorted(edges), "spans stand in order"
        assert not edges or edges[-1] <= len(self.tokens), "spans lie inside the text"

    @property
    def written(self) -> int:
        """How many of its tokens the target wrote."""
        return sum(end - start for start, end in self.spans)


class Store:
    """The records of one directory, read when it is opened; `append` adds to them.

    With `writable` the torn end that a kill leaves behind is cut off, otherwise it is passed over. LoadError
    for a store that is damaged elsewhere, with what to do.
    """

    def __init__(self, directory: Path, *, writable: bool = False) -> None:
        self.directory = directory
        self.header = read_json(directory / HEADER)
        if self.header.get("schema") != SCHEMA:
            raise LoadError(
                f"{directory / HEADER} is not of this version ({self.header.get('schema')}); make the data "
                "again with this version of outrider"
            )
        self.records: list[Example | None] = []
        self.torn = 0
        """Bytes at the end that a kill left unfinished."""
        self._file: BinaryIO | None = None
        self._writable = writable
        shards = _shards(directory)
        for number, path in enumerate(shards):
            self._read(number, path, last=number == len(shards) - 1)

    @classmethod
    def create(cls, directory: Path, about: dict[str, Any]) -> Store:
        """Make an empty store; OptionError where the directory holds anything already."""
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise OptionError(f"{str(directory)!r} is there already and is no store; name a new directory")
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / HEADER, {"schema": SCHEMA, **about})
        return cls(directory, writable=True)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def examples(self) -> list[Example]:
        """All texts, without the candidates that were passed over."""
        return [record for record in self.records if record is not None]

    def append(self, record: Example | None) -> None:
        """Add the next record; `flush` makes it last. TrainingError where the disk takes no more."""
        assert self._writable
        number = len(self.records)
        payload = _packed(record)
        whole = _PREFIX.pack(len(payload), zlib.crc32(payload), number) + payload
        with self._writing():
            if self._file is None:
                self._file = open(self._shard(number // SHARD_RECORDS), "ab")  # noqa: SIM115
            self._file.write(whole)
            self.records.append(record)
        if len(self.records) % SHARD_RECORDS == 0:
            self.close()

    def flush(self) -> None:
        """Have the disk hold all that was appended; TrainingError where it takes no more."""
        if self._file is not None:
            with self._writing():
                flushed(self._file)

    def close(self) -> None:
        """Flush, and close the file."""
        if self._file is not None:
            file, self._file = self._file, None
            with self._writing(), file:
                flushed(file)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Say what to do where the disk takes no more, which it often says no sooner than at a flush."""
        try:
            yield
        except OSError as error:
            raise TrainingError(
                f"cannot write to {str(self.directory)!r} ({error.strerror}); make room and run the same "
                "command again, which continues where this one stopped"
            ) from error

    def _shard(self, number: int) -> Path:
        return self.directory / f"{number:05d}.shard"

    def _read(self, number: int, path: Path, *, last: bool) -> None:
        if path != self._shard(number):
            raise LoadError(f"{self._shard(number)} is missing, but {path.name} is there; {_mend(path)}")
        data, at = path.read_bytes(), 0
        while at < len(data):
            length, checksum, index = (
                _PREFIX.unpack_from(data, at) if at + _PREFIX.size <= len(data) else (0, 0, -1)
            )
            end = at + _PREFIX.size + length
            payload = data[at + _PREFIX.size : end]
            whole = index >= 0 and end <= len(data)
            if not whole or zlib.crc32(payload) != checksum or index != len(self.records):
                if not last or (whole and end < len(data)):
                    raise LoadError(f"{path} is damaged at byte {at}; {_mend(path)}")
                self._cut(path, at, len(data))
                break
            self.records.append(_unpacked(payload))
            at = end
        if not last and len(self.records) != (number + 1) * SHARD_RECORDS:
            raise LoadError(f"{path} is cut short in the middle of the data; {_mend(path)}")
        if len(self.records) > (number + 1) * SHARD_RECORDS:
            raise LoadError(f"{path} holds more records than a shard has; {_mend(path)}")

    def _cut(self, path: Path, at: int, end: int) -> None:
        self.torn = end - at
        if self._writable:
            os.truncate(path, at)


def is_store(path: Path) -> bool:
    """Tell whether a path is a store's directory."""
    return (path / HEADER).is_file()


def _shards(directory: Path) -> Sequence[Path]:
    return sorted(directory.glob("*.shard"))


def _mend(path: Path) -> str:
    return (
        f"restore it, or remove {path.name} and every later shard and run the same command again: what they "
        "held is then generated anew"
    )


def _packed(record: Example | None) -> bytes:
    if record is None:
        return b""
    numbers = [len(record.spans), *(edge for span in record.spans for edge in span), *record.tokens]
    return np.asarray(numbers, dtype="<u4").tobytes()


def _unpacked(payload: bytes) -> Example | None:
    if not payload:
        return None
    numbers = np.frombuffer(payload, dtype="<u4").tolist()
    end = 1 + 2 * numbers[0]
    edges = numbers[1:end]
    return Example(tuple(numbers[end:]), tuple(zip(edges[::2], edges[1::2], strict=True)))
