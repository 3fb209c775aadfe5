"""Faults that users of other engines met, each as a change of our own source, with the test that finds it.

`python tests/faults/put_in.py` puts them in one by one and runs the tests; docs/guarantees.md lists them.
"""

from __future__ import annotations

from faults import batches, caches, loading, sampling, stops
from faults.fault import Fault

AREAS: dict[str, list[Fault]] = {
    "Where a text ends": stops.FAULTS,
    "Sampling": sampling.FAULTS,
    "Caches and positions": caches.FAULTS,
    "Batches": batches.FAULTS,
    "Loading and counting": loading.FAULTS,
}

__all__ = ["AREAS", "Fault"]
