"""Runs one request for a person who watches: text as it comes, counters at the end, Ctrl-C at any time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from outrider.cli.documents import generate_document
from outrider.cli.terminal import OriginSpans, Span, has_colour, legend, paint
from outrider.engine.result import Chunk
from outrider.errors import OutriderError, counted
from outrider.sampling.params import SamplingParams

if TYPE_CHECKING:
    from outrider.llm import LLM


def run_stream(
    llm: LLM,
    prompt: str | list[dict[str, Any]],
    params: SamplingParams,
    *,
    chat: bool,
    out: Console | None,
    notes: Console,
    show: bool,
    explained: bool = False,
) -> dict[str, Any]:
    """Generate for `prompt` and return the document of `outrider generate`.

    Text goes to `out` (nowhere when None) and the closing line to `notes`, with a legend of the colours
    unless they were `explained`. On KeyboardInterrupt the request is aborted and the document holds what
    there is, with finish_reason "abort". An error in mid-text leaves the line of that text finished.
    """
    stream = llm.stream(prompt, params, chat=chat)
    written = False
    try:
        with suppress(KeyboardInterrupt):
            for chunk in follow(stream, llm, out, show=show):
                written = written or bool(chunk.text)
    except OutriderError:
        if out is not None and written:
            out.print()
        raise
    if out is not None:
        out.print()
    document = generate_document(stream.close())
    if out is not None:
        if show and not explained:
            notes.print(legend(colour=has_colour(notes)))
        notes.print(Text(summary(document), style="dim"))
    return document


def run_samples(
    llm: LLM,
    prompt: str,
    params: SamplingParams,
    *,
    chat: bool,
    out: Console | None,
    notes: Console,
    show: bool,
) -> dict[str, Any]:
    """Do what `run_stream` does for several samples: they run together and are printed at the end."""
    result = llm.generate(prompt, params, chat=chat)
    if out is not None:
        for sample in result.samples:
            pieces: list[Span] = [(sample.text, None)]
            if show:
                spans = OriginSpans(llm.model.tokenizer.decode)
                pieces = spans.feed(sample.token_ids, sample.origins, sample.text)
            notes.print(Text(f"sample {sample.sample}", style="dim"))
            out.print(paint(pieces, colour=has_colour(out)))
            notes.print(Text(summary(generate_document(sample)), style="dim"))
        if show:
            notes.print(legend(colour=has_colour(notes)))
    return generate_document(result)


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


def summary(document: dict[str, Any]) -> str:
    """Return the closing line: tokens, speed, and what speculation did."""
    timing, speculation = document["timing"], document["speculation"]
    speed = timing["decode_tokens_per_second"]
    parts = [
        f"{counted(document['completion_tokens'], 'token')} ({document['finish_reason']})",
        f"{speed:.1f} tokens/s" if speed else "",
        f"first token after {timing['prefill_seconds']:.2f} s",
        f"{speculation['drafter']} + {speculation['rule']}",
        f"{speculation['mean_accepted_length']:.2f} tokens per pass",
    ]
    if speculation["drafted"]:
        drafted = counted(speculation["drafted"], "drafted token")
        parts.append(f"{speculation['accepted']} of {drafted} kept")
    return " · ".join(part for part in parts if part)
