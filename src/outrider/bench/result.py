"""The result document of a benchmark: figures for each drafter and task, the prompts, the provenance."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from outrider.bench.run import Measurement
from outrider.bench.stats import add_counts, bootstrap_median, pooled_speed
from outrider.bench.suites import Suite
from outrider.errors import LoadError
from outrider.planner.cost import CostPoint
from outrider.sampling.params import SamplingParams

BENCH_SCHEMA = {"name": "outrider.bench", "version": 1}
CURVE_SCHEMA = {"name": "outrider.bench.curve", "version": 1}
OVERALL = "overall"


def bench_document(
    measurements: Sequence[Measurement], suite: Suite, params: SamplingParams, provenance: dict[str, Any]
) -> dict[str, Any]:
    """Return the document of one run: a row for each drafter in each task and overall, drafters in order."""
    names = list(dict.fromkeys(m.contestant for m in measurements))
    categories = list(dict.fromkeys(m.prompt.category for m in measurements))
    rows = [
        summarize([m for m in measurements if m.contestant == name and _counts(m, category)], category)
        for name in names
        for category in [*categories, OVERALL]
    ]
    return {
        "schema": BENCH_SCHEMA,
        "results": rows,
        "prompts": [_prompt_row(m) for m in measurements],
        "suite": {
            "name": suite.name,
            "prompts": len(suite.prompts),
            "left_out": _left_out(measurements, suite),
        },
        "sampling": asdict(params),
        "provenance": provenance,
    }


def curve_document(
    curves: Mapping[str, Sequence[CostPoint]],
    left_out: Sequence[int],
    provenance: dict[str, Any],
    *,
    drafter: str | None = None,
    steps: Mapping[str, Sequence[CostPoint]] | None = None,
) -> dict[str, Any]:
    """Return the document of latency curves, given by the name of the kernel; `provenance` is the first's.

    `steps`: what levels of the drafter's trees take beside each of them.
    """
    return {
        "schema": CURVE_SCHEMA,
        "curves": [
            {"kernel": kernel, **asdict(point)} for kernel, points in curves.items() for point in points
        ],
        "drafter": drafter,
        "steps": [
            {
                "kernel": kernel,
                "context": point.context,
                "nodes": point.rows,
                "milliseconds": point.milliseconds,
                "share": point.ratio,
            }
            for kernel, points in (steps or {}).items()
            for point in points
        ],
        "contexts_left_out": list(left_out),
        "provenance": provenance,
    }


def summarize(own: Sequence[Measurement], category: str) -> dict[str, Any]:
    """Return the row of one contestant from its measurements on one task.

    Speeds are pooled (all tokens over all seconds); `speedup` is the median over prompts of its decode speed
    over plain decoding's on the same prompt. Prompts that ended with their first tokens have no decode speed.
    """
    results = [m.result for m in own]
    timings = [result.timing for result in results]
    counts = [result.speculation for result in results]
    drafted, accepted = sum(c.drafted for c in counts), sum(c.accepted for c in counts)
    passes = sum(c.passes for c in counts)
    later_passes = passes - len(counts)
    outside = sum(t.decode_seconds - t.decode_target_seconds for t in timings)
    interval = bootstrap_median([m.speedup for m in own if m.speedup])
    return {
        "drafter": own[0].contestant,
        "category": category,
        "prompts": len(own),
        "decode_tokens_per_second": pooled_speed(
            [t.decode_tokens for t in timings], [t.decode_seconds for t in timings]
        ),
        "end_to_end_tokens_per_second": pooled_speed(
            [result.completion_tokens for result in results], [m.seconds for m in own]
        ),
        "time_to_first_token": sum(t.prefill_seconds for t in timings) / len(own),
        "mean_accepted_length": sum(c.tokens for c in counts) / passes if passes else None,
        "acceptance_rate": accepted / drafted if drafted else None,
        "drafted_per_position": add_counts([c.drafted_per_position for c in counts]),
        "accepted_per_position": add_counts([c.accepted_per_position for c in counts]),
        "overhead_ms_per_step": 1000 * outside / later_passes
        if later_passes > 0 and isfinite(outside)
        else None,
        "identical_to_plain": sum(m.identical_to_plain for m in own) / len(own),
        "speedup": asdict(interval) if interval else None,
        "rule": counts[0].rule,
        "guarantee": str(counts[0].guarantee),
    }


def _counts(m: Measurement, category: str) -> bool:
    return category in (OVERALL, m.prompt.category)


def _left_out(measurements: Sequence[Measurement], suite: Suite) -> list[str]:
    measured = {m.prompt.id for m in measurements}
    return [prompt.id for prompt in suite.prompts if prompt.id not in measured]


def _prompt_row(m: Measurement) -> dict[str, Any]:
    result = m.result
    return {
        "id": m.prompt.id,
        "category": m.prompt.category,
        "turn": m.turn,
        "drafter": m.contestant,
        "prompt_tokens": result.prompt_tokens,
        "completion_tokens": result.completion_tokens,
        "finish_reason": result.finish_reason,
        "decode_tokens_per_second": result.timing.decode_tokens_per_second,
        "seconds": m.seconds,
        "time_to_first_token": result.timing.prefill_seconds,
        "mean_accepted_length": result.speculation.mean_accepted_length,
        "identical_to_plain": m.identical_to_plain,
        "tokens_sha256": hashlib.sha256(json.dumps(result.token_ids).encode()).hexdigest()[:16],
    }


def write_document(document: dict[str, Any], path: Path) -> None:
    """Write a document as indented JSON; LoadError where the file cannot be written."""
    try:
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise LoadError(f"cannot write {str(path)!r}: {error.strerror}; choose another --out") from error


def read_json(path: Path) -> Any:
    """Return what a JSON file holds; LoadError where it cannot be read or is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LoadError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except ValueError as error:
        raise LoadError(f"{str(path)!r} is no JSON: {error}") from error
