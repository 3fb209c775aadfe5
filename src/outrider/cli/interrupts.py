"""Ctrl-C before there is a result: with `--json` a document says so. Imports nothing that takes time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import typer

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended."""


@contextmanager
def document_on_interrupt(wanted: bool, drafter: str, seed: int | None) -> Iterator[None]:
    """Print the document of an empty answer where Ctrl-C comes inside, and exit; only where `wanted`."""
    try:
        yield
    except KeyboardInterrupt:
        if not wanted:
            raise
        print(json.dumps(empty_document(drafter, seed), ensure_ascii=False), flush=True)
        raise typer.Exit(INTERRUPTED) from None


def empty_document(drafter: str, seed: int | None) -> dict[str, object]:
    """Return the document of a request that has not begun: null stands for what nobody knows yet."""
    return {
        "text": "",
        "token_ids": [],
        "finish_reason": "abort",
        "prompt_tokens": None,
        "completion_tokens": 0,
        "seed": seed,
        "sample": 0,
        "mean_logprob": None,
        "logprobs": None,
        "prompt_logprobs": None,
        "samples": None,
        "timing": {
            "prefill_seconds": 0.0,
            "decode_seconds": 0.0,
            "decode_tokens_per_second": None,
            "target_seconds": 0.0,
            "draft_seconds": 0.0,
        },
        "speculation": {
            "drafter": drafter,
            "rule": None,
            "guarantee": None,
            "passes": 0,
            "drafted": 0,
            "accepted": 0,
            "mean_accepted_length": 0.0,
            "acceptance_rate": None,
            "drafted_per_position": [],
            "accepted_per_position": [],
        },
    }
