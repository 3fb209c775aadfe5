"""A pass against the time that reading its bytes takes: how near it comes to what the memory allows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from outrider import native
from outrider.errors import CapabilityError, OptionError
from outrider.models.base import Target
from outrider.models.config import DecoderConfig
from outrider.planner.cost import SETTLING, in_turns, settle
from outrider.planner.probe import TargetProbe

ROWS = (1, 2, 4, 8, 16)
ROOFLINE_SCHEMA = {"name": "outrider.bench.roofline", "version": 1}


@runtime_checkable
class ReadableTarget(Target, Protocol):
    """A target that can say which bytes its passes read, as the lean decoders can."""

    config: DecoderConfig
    device: torch.device

    @property
    def weight_bytes(self) -> int:
        """Bytes of the matrices of the layers and the head; the embedding, read by the row, left aside."""
        ...


@dataclass(frozen=True, slots=True)
class Roofline:
    """Seconds of one read and of passes over the same bytes, one of each a round, with the same threads."""

    weight_bytes: int
    cache_bytes: int
    read: tuple[float, ...]
    passes: dict[int, tuple[float, ...]]
    """By the rows of the pass."""


def measure_roofline(
    target: Target, *, context: int = 256, rows: Sequence[int] = ROWS, repeats: int = 15
) -> Roofline:
    """Time reads and passes of a target in turns, on top of `context` cached tokens.

    What is read is memory of the size of the weights and of the keys and values that a row sees, summed by
    the C++ core with as many threads as passes have; sums in PyTorch take nearly twice as long, and would be
    no bound. CapabilityError where the core was not built, and for a target that is on a GPU or cannot tell
    its bytes; OptionError where the context leaves no room for the rows.
    """
    readable = _readable(target, context + max(rows))
    from outrider.native._core import Reader

    weight_bytes, cache_bytes = readable.weight_bytes, cache_bytes_seen(readable.config, context)
    reader = Reader(weight_bytes + cache_bytes, torch.get_num_threads())
    probe = TargetProbe(target)
    probe.fill(context)
    for count in rows:
        probe.time(count)
    read: list[float] = []
    passes: dict[int, list[float]] = {count: [] for count in rows}
    for count in in_turns([(0,), tuple(rows)], repeats):
        if count:
            settle(probe, count, SETTLING)
            passes[count].append(probe.time(count))
        else:
            reader.seconds()  # fetches what passes drove out of the caches, as one pass does for the next
            read.append(reader.seconds())
    return Roofline(
        weight_bytes, cache_bytes, tuple(read), {count: tuple(times) for count, times in passes.items()}
    )


def cache_bytes_seen(config: DecoderConfig, context: int) -> int:
    """Return the bytes of the keys and values, in float32, that a row after `context` tokens sees."""
    slots = sum(min(context, config.window(layer) or context) for layer in range(config.layers))
    return slots * 2 * config.kv_heads * config.head_dim * 4


def roofline_document(
    measured: Roofline, context: int, kernel: str, provenance: dict[str, Any]
) -> dict[str, Any]:
    """Return the document of one run: the read, and each pass as a multiple of it."""
    size = measured.weight_bytes + measured.cache_bytes
    read, best_read = statistics.median(measured.read), min(measured.read)
    one = statistics.median(measured.passes[1])
    passes = []
    for rows, times in measured.passes.items():
        median, best = statistics.median(times), min(times)
        passes.append(
            {
                "rows": rows,
                "milliseconds": 1000 * median,
                "best_milliseconds": 1000 * best,
                "gigabytes_per_second": size / median / 1e9,
                "over_read": median / read,
                "best_over_read": best / best_read,
                "ratio": median / one,
            }
        )
    return {
        "schema": ROOFLINE_SCHEMA,
        "kernel": kernel,
        "context": context,
        "read": {
            "bytes": size,
            "weight_bytes": measured.weight_bytes,
            "cache_bytes": measured.cache_bytes,
            "milliseconds": 1000 * read,
            "best_milliseconds": 1000 * best_read,
            "gigabytes_per_second": size / read / 1e9,
            "best_gigabytes_per_second": size / best_read / 1e9,
        },
        "passes": passes,
        "provenance": provenance,
    }


def _readable(target: Target, needed: int) -> ReadableTarget:
    if not isinstance(target, ReadableTarget):
        raise CapabilityError("this model does not run on the lean decoder, which tells the bytes of a pass")
    if target.device.type != "cpu":
        raise CapabilityError(f"the read is measured on a CPU, the model is on {target.device}: --device cpu")
    reason = native.why_missing()
    if reason is not None:
        raise CapabilityError(
            f"the read is measured by the C++ core, which is not there: {reason}; "
            "with a C++17 compiler, install again: pip install -e ."
        )
    if needed > target.context_limit:
        raise OptionError(
            f"the model's own limit is {target.context_limit} tokens, and the longest pass ends at {needed}; "
            "use a smaller --context"
        )
    return target
