"""Reads GGUF files: the header with one pass over a memory map, tensors when they are asked for."""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from outrider.errors import LoadError, UnsupportedModelError
from outrider.models.fingerprint import fingerprint

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
Raw = np.ndarray[tuple[int], np.dtype[np.uint8]]
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where a tensor lies in the file: `shape` in row-major order, the ggml type and the byte range."""

    shape: tuple[int, ...]
    kind: int
    offset: int
    nbytes: int


class GGUFFile:
    """A GGUF file, versions 2 and 3, little-endian.

    `metadata` holds every key of the header as plain Python values and `tensors` the directory of tensors.
    The `gguf` package reads the same header one array element at a time, which takes seconds for a large
    vocabulary; a test holds the two together. LoadError for a file that is damaged, UnsupportedModelError for
    one that is a part of a split model or of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.fingerprint = fingerprint(path, os.fstat(file.fileno()))
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            hint = "; download it again" if isinstance(error, ValueError) else ""  # an empty file has no map
            raise LoadError(f"cannot read {path}: {error}{hint}") from error
        if self._data[:4] != _MAGIC:
            raise LoadError(f"{path} is not a GGUF file: it does not start with the letters GGUF")
        try:
            self.metadata, self.tensors = self._read_header()
        except (struct.error, UnicodeDecodeError, KeyError) as error:
            raise self._damaged() from error
        if self.metadata.get("split.count", 1) > 1:
            raise UnsupportedModelError(
                f"{path} is one part of a split GGUF model; join the parts first: "
                "llama-gguf-split --merge FIRST_PART OUTPUT.gguf"
            )
        for name, entry in self.tensors.items():
            if entry.offset + entry.nbytes > len(self._data):
                raise LoadError(
                    f"{path} is cut short: tensor {name!r} ends at byte {entry.offset + entry.nbytes}, "
                    f"the file at {len(self._data)}; download it again"
                )

    def raw(self, name: str) -> tuple[Raw, str]:
        """Return a tensor's bytes as they lie in the file, a view, and the name of their ggml type."""
        from gguf.constants import GGMLQuantizationType

        entry = self.tensors[name]
        raw = np.frombuffer(self._data, dtype=np.uint8, count=entry.nbytes, offset=entry.offset)
        return raw, GGMLQuantizationType(entry.kind).name

    def tensor(self, name: str) -> Tensor:
        """Return a tensor in float32; UnsupportedModelError for a type that cannot be dequantised."""
        from gguf.constants import GGMLQuantizationType
        from gguf.quants import dequantize

        entry = self.tensors[name]
        raw, kind = self.raw(name)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # blocks of a damaged file
                values = dequantize(raw.reshape(*entry.shape[:-1], -1), GGMLQuantizationType[kind])
        except NotImplementedError as error:
            raise UnsupportedModelError(
                f"{self.path}: tensor {name!r} has the type {kind}, which cannot be read; "
                "use a file with Q8_0, Q4_K_M, F16 or another common type"
            ) from error
        # A copy, because plain float32 comes back as a read-only view of the file.
        return torch.from_numpy(np.array(values, dtype=np.float32).reshape(entry.shape))

    def _damaged(self) -> LoadError:
        return LoadError(f"{self.path} has a damaged or incomplete GGUF header; download it again")

    def _read_header(self) -> tuple[dict[str, Any], Mapping[str, TensorEntry]]:
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

        cursor = _Cursor(self._data, 4)
        version = cursor.scalar("I")
        if version not in _VERSIONS:
            raise UnsupportedModelError(
                f"{self.path} has GGUF version {version & 0xFFFF or 'big-endian'}; "
                "versions 2 and 3, little-endian, can be read; convert the model again with llama.cpp"
            )
        tensor_count, key_count = cursor.scalar("Q"), cursor.scalar("Q")
        metadata: dict[str, Any] = {}
        for _ in range(key_count):
            key = cursor.string()
            metadata[key] = cursor.value(cursor.scalar("I"))
        found: list[tuple[str, tuple[int, ...], int, int]] = []
        for _ in range(tensor_count):
            name = cursor.string()
            sizes = cursor.scalars("Q", cursor.scalar("I"))
            found.append((name, tuple(reversed(sizes)), cursor.scalar("I"), cursor.scalar("Q")))
        alignment = int(metadata.get("general.alignment", 32)) or 32
        start = -(-cursor.offset // alignment) * alignment
        tensors: dict[str, TensorEntry] = {}
        for name, shape, kind, offset in found:
            try:
                block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
            except ValueError as error:
                raise UnsupportedModelError(
                    f"{self.path}: tensor {name!r} has the ggml type {kind}, which the installed gguf "
                    "package does not know; update it with: pip install -U gguf"
                ) from error
            if offset % alignment:
                raise LoadError(
                    f"{self.path}: tensor {name!r} begins at byte {offset} of the data, which is no multiple "
                    f"of the file's alignment of {alignment}; download it again"
                )
            count = math.prod(shape)
            if not shape or count == 0 or shape[-1] % block:
                raise LoadError(
                    f"{self.path}: tensor {name!r} has the impossible shape {list(shape)} for its type "
                    f"{GGMLQuantizationType(kind).name}, whose blocks hold {block} values; download it again"
                )
            tensors[name] = TensorEntry(shape, kind, start + offset, count // block * size)
        return metadata, tensors


class _Cursor:
    """A place in the header; every read moves it on, and struct.error says that the file ended."""

    def __init__(self, data: mmap.mmap, offset: int) -> None:
        self.data, self.offset = data, offset

    def scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.data, self.offset)
        self.offset += struct.calcsize("<" + code)
        return value

    def scalars(self, code: str, count: int) -> list[Any]:
        size = struct.calcsize("<" + code) * count
        if size > len(self.data) - self.offset:
            raise struct.error("array runs past the end of the file")
        values = list(struct.unpack_from(f"<{count}{code}", self.data, self.offset))
        self.offset += size
        return values

    def string(self) -> str:
        length = self.scalar("Q")
        end = self.offset + length
        if end > len(self.data):
            raise struct.error("string runs past the end of the file")
        text = self.data[self.offset : end].decode("utf-8")
        self.offset = end
        return text

    def strings(self, count: int) -> list[str]:
        """Return `count` strings; a vocabulary has so many that `string` for each takes most of the time."""
        data, offset, length_at = self.data, self.offset, struct.Struct("<Q").unpack_from
        size, texts = len(data), []
        for _ in range(count):
            start = offset + 8
            offset = start + length_at(data, offset)[0]
            if offset > size:
                raise struct.error("string runs past the end of the file")
            texts.append(str(data[start:offset], "utf-8"))
        self.offset = offset
        return texts

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.scalar(_SCALARS[kind])
        item, count = self.scalar("I"), self.scalar("Q")
        if item == _STRING:
            return self.strings(count)
        if item in _SCALARS:
            return self.scalars(_SCALARS[item], count)
        return [self.value(item) for _ in range(count)]
