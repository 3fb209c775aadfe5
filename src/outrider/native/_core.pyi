# What the C++ module offers; bindings.cpp makes it.

from collections.abc import Sequence
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

class Cancelled(Exception): ...  # noqa: N818 (a state, not a fault)

class Matrix:
    format: str
    outputs: int
    inputs: int
    largest: float
    nbytes: int
    def panels(self) -> Bytes: ...
    def read(self, output: int, out: Floats) -> None: ...

def pack(weights: Floats, format: str, threads: int = 1) -> Matrix: ...
def pack_blocks(
    raw: Bytes,
    outputs: int,
    inputs: int,
    format: str,
    order: np.ndarray[Any, np.dtype[np.int32]] | None = None,
    threads: int = 1,
    to: str | None = None,
) -> Matrix: ...
def matrix_over(panels: Bytes, format: str, outputs: int, inputs: int, largest: float) -> Matrix: ...

PAGE_SLOTS: int

class Page:
    nbytes: int

class Cache:
    length: int
    nbytes: int
    page_bytes: int
    def __init__(self, layers: int, kv_heads: int, dim: int, pages: Sequence[Page] = ()) -> None: ...
    def pages(self, count: int) -> list[Page]: ...
    def keep(self, rows: Sequence[int]) -> None: ...
    def truncate(self, length: int) -> None: ...
    def read(self, layer: int, head: int, slot: int, key: Floats, value: Floats) -> None: ...

class Decoder:
    isa: str
    threads: int
    def add_layer(self, parts: dict[str, object], window: int = 0, normed_residual: bool = False) -> None: ...
    def set_fusion(
        self, matrix: Matrix, bias: Floats | None = None, norm: Floats | None = None, parts: int = 1
    ) -> None: ...
    def set_top(self, embedding: Matrix, norm: Floats, head: Matrix) -> None: ...
    def set_rotation(self, cos: Floats, sin: Floats) -> None: ...
    def run(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[int],
        parents: Sequence[int],
        wanted: Sequence[int],
        caches: Sequence[Cache],
        threads: int,
        logits: Floats,
        layers: Sequence[int] | None = None,
        captured: Sequence[int] = (),
        hidden: Floats | None = None,
        inputs: Floats | None = None,
        features: Floats | None = None,
        states: Floats | None = None,
        normed: bool = False,
        grows: bool = False,
    ) -> None: ...
    def head(self, hidden: Floats, threads: int, logits: Floats) -> None: ...
    def cancel(self) -> None: ...

def make_decoder(
    vocab: int,
    hidden: int,
    inner: int,
    heads: int,
    kv_heads: int,
    dim: int,
    eps: float,
    isa: str | None = None,
    outputs: int | None = None,
    bytes: bool = False,
) -> Decoder: ...

class Reader:
    nbytes: int
    sum: int
    def __init__(self, bytes: int, threads: int) -> None: ...
    def seconds(self) -> float: ...
