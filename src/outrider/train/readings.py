"""What a target said about texts, kept in one file: read once, also for a run that goes on after a kill."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from outrider.errors import TrainingError
from outrider.train.store import Example

_HEAD = struct.Struct("<16s5I")
"""Of a record: which text it is of, T, K, C, D, and the CRC-32 of what follows."""


@dataclass(frozen=True, slots=True)
class Laws:
    """Of each of R rows the K likeliest next tokens, likeliest first: `ids [R, K]` and `probs [R, K]`.

    Probabilities are those at temperature 1 over all tokens, so a row sums to 1 less what was cut off.
    """

    ids: Tensor
    probs: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: slice) -> Laws:
        return Laws(self.ids[rows], self.probs[rows])


@dataclass(frozen=True, slots=True)
class Reading:
    """A text of T tokens as the target read it: `laws` of T rows, and `features [C, T, D]` float16.

    Rows after which the target did not write hold zeros for laws: nothing is learned there.
    """

    laws: Laws
    features: Tensor

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return sum(part.nbytes for part in (self.laws.ids, self.laws.probs, self.features))


class Readings:
    """Readings in the file `path`, up to `most_bytes`; records are only ever appended.

    What a kill left unfinished is cut off, and a record whose sum does not fit counts as absent.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path, self._most = path, most_bytes
        self._places: dict[bytes, int] = {}
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        self._end, size = 0, os.fstat(self._file).st_size
        while self._end + _HEAD.size <= size:
            key, *shape, _ = _HEAD.unpack(os.pread(self._file, _HEAD.size, self._end))
            after = self._end + _HEAD.size + _bytes(*shape)
            if after > size:
                break
            self._places[key] = self._end
            self._end = after

    def __contains__(self, text: Example) -> bool:
        return _key(text) in self._places

    def get(self, text: Example) -> Reading | None:
        """Return the reading of a text; None where it is not kept."""
        place = self._places.get(_key(text))
        if place is None:
            return None
        _, count, top, layers, width, crc = _HEAD.unpack(os.pread(self._file, _HEAD.size, place))
        data = bytearray(os.pread(self._file, _bytes(count, top, layers, width), place + _HEAD.size))
        if zlib.crc32(data) != crc:
            return None
        laws = 4 * count * top
        ids = torch.from_numpy(np.frombuffer(data, np.int32, count * top).reshape(count, top))
        probs = torch.from_numpy(np.frombuffer(data, np.float32, count * top, laws).reshape(count, top))
        features = np.frombuffer(data, np.float16, layers * count * width, 2 * laws)
        return Reading(Laws(ids, probs), torch.from_numpy(features.reshape(layers, count, width)))

    def put(self, text: Example, reading: Reading) -> None:
        """Keep a reading where there is room; TrainingError where the disk is full."""
        if self._end + _HEAD.size + reading.nbytes > self._most:
            return
        (count, top), (layers, _, width) = reading.laws.ids.shape, reading.features.shape
        parts = (reading.laws.ids, reading.laws.probs, reading.features.contiguous())
        data = b"".join(part.numpy().tobytes() for part in parts)
        head = _HEAD.pack(_key(text), count, top, layers, width, zlib.crc32(data))
        try:
            os.ftruncate(self._file, self._end)
            written = os.pwrite(self._file, head + data, self._end)
        except OSError as error:
            raise TrainingError(
                f"cannot write {str(self._path)!r} ({error.strerror}); make room, or keep less with "
                "--buffer, then continue with --resume"
            ) from error
        if written == len(head) + len(data):
            self._places[_key(text)] = self._end
            self._end += written

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _key(text: Example) -> bytes:
    said = np.asarray(text.tokens, np.uint32).tobytes() + repr(text.spans).encode()
    return hashlib.blake2b(said, digest_size=16).digest()


def _bytes(count: int, top: int, layers: int, width: int) -> int:
    return 8 * count * top + 2 * layers * count * width
