"""The JSON documents of the commands; docs/cli.md describes their fields."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from outrider.engine.result import Result, Speculation, Timing
from outrider.sampling.logprobs import TokenLogprobs


def generate_document(result: Result) -> dict[str, Any]:
    """Return the document of one finished request, with all its samples where it has several."""
    several = [_sample_document(sample) for sample in result.samples] if result.others else None
    return {**_sample_document(result), "samples": several}


def _sample_document(result: Result) -> dict[str, Any]:
    return {
        "text": result.text,
        "token_ids": list(result.token_ids),
        "finish_reason": result.finish_reason,
        "prompt_tokens": result.prompt_tokens,
        "completion_tokens": result.completion_tokens,
        "seed": result.seed,
        "sample": result.sample,
        "mean_logprob": result.mean_logprob,
        "logprobs": _logprobs(result.logprobs),
        "prompt_logprobs": _logprobs(result.prompt_logprobs),
        "timing": timing_document(result.timing),
        "speculation": speculation_document(result.speculation),
    }


def _logprobs(entries: Sequence[TokenLogprobs | None] | None) -> list[dict[str, Any] | None] | None:
    if entries is None:
        return None
    return [entry if entry is None else asdict(entry) for entry in entries]


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
