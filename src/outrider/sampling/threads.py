"""Keeps torch to one thread for work on a single row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch's operations of this block on the calling thread alone; also a decorator.

    A second thread gains little on one row of a vocabulary, and OpenMP lets it spin for milliseconds
    afterwards, on a processor that the next pass of the model needs.
    """
    threads = torch.get_num_threads()
    if threads == 1 or not _can_change():
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@cache
def _can_change() -> bool:
    """Tell whether the number of threads may change at any time, as it may with OpenMP only."""
    return "parallel backend: OpenMP" in torch.__config__.parallel_info()
