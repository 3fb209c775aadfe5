"""Runs one request for a person who watches: text as it comes, counters at the end, Ctrl-C at any time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from outrider.cli.documents import generate_document
from outrider.cli.terminal import OriginSpans, Span, has_colour, legend, paint
from outrider.engine.result import Chunk, Origin
from outrider.sampling.params import SamplingParams

if TYPE_CHECKING:
    from outrider.llm import LLM


def run_stream(
    llm: LLM,
    prompt: str,
    params: SamplingParams,
    *,
    chat: bool,
    out: Console | None,
    notes: Console,
    show: bool,
) -> dict[str, Any]:
    """Generate for `prompt` and return the document of `outrider generate`.

    Text goes to `out` (nowhere when None) and the closing line to `notes`. On KeyboardInterrupt the request
    is aborted and the document holds what there is, with finish_reason "abort".
    """
    chunks: list[Chunk] = []
    arrivals: list[float] = [time.perf_counter()]
    stream = llm.stream(prompt, params, chat=chat)
    try:
        for chunk in follow(stream, llm, out, show=show):
            chunks.append(chunk)
            arrivals.append(time.perf_counter())
    except KeyboardInterrupt:
        arrivals.append(time.perf_counter())
    if out is not None:
        out.print()
    result = chunks[-1].result if chunks else None
    document = generate_document(result) if result else aborted_document(llm, prompt, chat, chunks, arrivals)
    if out is not None:
        if show:
            notes.print(legend(colour=has_colour(notes)))
        notes.print(Text(summary(document), style="dim"))
    return document


def follow(stream: Iterator[Chunk], llm: LLM, out: Console | None, *, show: bool) -> Iterator[Chunk]:
    """Pass a stream on, printing its text to `out` as it comes; with `show`, by the origin of its tokens."""
    spans = OriginSpans(llm.model.tokenizer.decode)
    for chunk in stream:
        if out is not None:
            pieces: list[Span] = [(chunk.text, None)]
            if show:
                pieces = spans.feed(chunk.token_ids, chunk.origins, chunk.text)
            out.print(paint(pieces, colour=has_colour(out)), end="")
            out.file.flush()
        yield chunk


def aborted_document(
    llm: LLM, prompt: str, chat: bool, chunks: list[Chunk], arrivals: list[float]
) -> dict[str, Any]:
    """Return the document of a request that was interrupted, from the chunks that had come.

    `arrivals` are the times of the request's start, of each chunk, and of its end. What only a finished
    request knows (tokens drafted and turned down, time inside the target) is null.
    """
    tokens = [token for chunk in chunks for token in chunk.token_ids]
    origins = [origin for chunk in chunks for origin in chunk.origins]
    passes = sum(origin is not Origin.DRAFTED for origin in origins)
    later = len(tokens) - sum(len(chunk.token_ids) for chunk in chunks[:1])
    decode_seconds = arrivals[-1] - arrivals[1]
    return {
        "text": "".join(chunk.text for chunk in chunks),
        "token_ids": tokens,
        "finish_reason": "abort",
        "prompt_tokens": len(llm.encode(prompt, chat=chat)),
        "completion_tokens": len(tokens),
        "seed": None,
        "timing": {
            "prefill_seconds": arrivals[1] - arrivals[0],
            "decode_seconds": decode_seconds,
            "decode_tokens_per_second": later / decode_seconds if later and decode_seconds > 0 else None,
            "target_seconds": None,
            "draft_seconds": None,
        },
        "speculation": {
            "drafter": llm.drafter_name,
            "rule": llm.rule_name,
            "guarantee": None,
            "passes": passes,
            "drafted": None,
            "accepted": len(tokens) - passes,
            "mean_accepted_length": len(tokens) / passes if passes else 0.0,
            "acceptance_rate": None,
            "drafted_per_position": None,
            "accepted_per_position": None,
        },
    }


def summary(document: dict[str, Any]) -> str:
    """Return the closing line: tokens, speed, and what speculation did."""
    timing, speculation = document["timing"], document["speculation"]
    speed = timing["decode_tokens_per_second"]
    parts = [
        f"{document['completion_tokens']} tokens ({document['finish_reason']})",
        f"{speed:.1f} tokens/s" if speed else "",
        f"first token after {timing['prefill_seconds']:.2f} s",
        f"{speculation['drafter']} + {speculation['rule']}",
        f"{speculation['mean_accepted_length']:.2f} tokens per pass",
    ]
    if speculation["drafted"]:
        parts.append(f"{speculation['accepted']} of {speculation['drafted']} drafted tokens kept")
    return " · ".join(part for part in parts if part)
