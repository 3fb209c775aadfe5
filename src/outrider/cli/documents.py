"""The JSON documents of the commands; docs/cli.md describes their fields."""

from __future__ import annotations

import json
import math
from typing import Any

from outrider.engine.result import Result, Speculation, Timing


def generate_document(result: Result) -> dict[str, Any]:
    """Return the document of one finished request."""
    return {
        "text": result.text,
        "token_ids": list(result.token_ids),
        "finish_reason": result.finish_reason,
        "prompt_tokens": result.prompt_tokens,
        "completion_tokens": result.completion_tokens,
        "seed": result.seed,
        "timing": timing_document(result.timing),
        "speculation": speculation_document(result.speculation),
    }


def timing_document(timing: Timing) -> dict[str, Any]:
    """Return the times of one request, in seconds."""
    return {
        "prefill_seconds": timing.prefill_seconds,
        "decode_seconds": timing.decode_seconds,
        "decode_tokens_per_second": timing.decode_tokens_per_second,
        "target_seconds": timing.target_seconds,
        "draft_seconds": timing.draft_seconds,
    }


def speculation_document(speculation: Speculation) -> dict[str, Any]:
    """Return the counters of one request."""
    return {
        "drafter": speculation.drafter,
        "rule": speculation.rule,
        "guarantee": str(speculation.guarantee),
        "passes": speculation.passes,
        "drafted": speculation.drafted,
        "accepted": speculation.accepted,
        "mean_accepted_length": speculation.mean_accepted_length,
        "acceptance_rate": speculation.acceptance_rate,
        "drafted_per_position": list(speculation.drafted_per_position),
        "accepted_per_position": list(speculation.accepted_per_position),
    }


def one_line(document: dict[str, Any]) -> str:
    """Return a document as one line of JSON; numbers that JSON has no word for become null."""
    return json.dumps(_plain(document), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
