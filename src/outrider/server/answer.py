"""What an answer holds, in OpenAI's shapes: choices, logprobs, usage, and the record of speculation."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from outrider.engine.result import Result
from outrider.sampling.logprobs import TokenLogprobs
from outrider.server.site import Site
from outrider.server.tokens import Offsets, TokenTexts
from outrider.server.tools import Call, CallReader
from outrider.server.translate import Job

LEAST = -9999.0
"""Stands for the logprob of a token that could not have been drawn, since JSON has no -inf."""


class Choice:
    """One choice while its text comes: what was called, where its tokens begin."""

    def __init__(self, site: Site, job: Job, index: int) -> None:
        self.index = index
        self._first = job.prompts[index // job.params.n][0]
        self._job, self._texts = job, site.texts
        self._offsets = Offsets()
        self._reader = CallReader() if job.calls else None
        self._calls = 0

    def delta(
        self,
        text: str,
        logprobs: Sequence[TokenLogprobs | None],
        result: Result | None = None,
        *,
        first: bool = False,
        trail: Mapping[str, Any] = MappingProxyType({}),
    ) -> dict[str, Any] | None:
        """Return the next piece of a stream, None where there is nothing to show; `result` with the last.

        `trail`: what is told of its tokens and passes.
        """
        text, calls = self._read(text, last=result is not None)
        begun = self._calls
        self._calls += len(calls)
        piece: dict[str, Any] = {"index": self.index}
        if self._job.chat:
            said: dict[str, Any] = {"role": "assistant"} if first else {}
            if text or first:
                said["content"] = text
            if calls:
                said["tool_calls"] = [{"index": begun + i, **call.document} for i, call in enumerate(calls)]
            piece["delta"] = said
        else:
            piece["text"] = text
        if not (text or calls or logprobs or first or result or trail):
            return None
        piece = self._end(piece, logprobs, result)
        if trail:
            piece["outrider"] = {**trail, **piece.get("outrider", {})}
        return piece

    def whole(self, text: str, logprobs: Sequence[TokenLogprobs | None], result: Result) -> dict[str, Any]:
        """Return the whole choice."""
        text, calls = self._read(text, last=True)
        self._calls = len(calls)
        piece: dict[str, Any] = {"index": self.index}
        if self._job.chat:
            message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
            if calls:
                message |= {"content": text.strip() or None, "tool_calls": [call.document for call in calls]}
            piece["message"] = message
        else:
            piece["text"] = text
        return self._end(piece, logprobs, result)

    def _read(self, text: str, *, last: bool) -> tuple[str, list[Call]]:
        return (text, []) if self._reader is None else self._reader.feed(text, last=last)

    def _end(
        self, piece: dict[str, Any], logprobs: Sequence[TokenLogprobs | None], result: Result | None
    ) -> dict[str, Any]:
        piece["logprobs"] = None
        if self._job.params.logprobs is not None:
            piece["logprobs"] = (
                chat_logprobs(self._texts, logprobs)
                if self._job.chat
                else legacy_logprobs(self._texts, self._offsets, logprobs, self._first)
            )
        piece["finish_reason"] = None if result is None else self._reason(result)
        if result is not None and self._job.speculation:
            piece["outrider"] = record(result)
        return piece

    def _reason(self, result: Result) -> str:
        if self._job.silent:
            return "length"
        return "tool_calls" if self._calls and result.finish_reason == "stop" else result.finish_reason


class Envelope:
    """What stands around the choices of one answer."""

    def __init__(self, site: Site, job: Job) -> None:
        kind = "chatcmpl" if job.chat else "cmpl"
        whole = "chat.completion" if job.chat else "text_completion"
        self.id = f"{kind}-{secrets.token_hex(12)}"
        piece = f"{whole}.chunk" if job.chat else whole
        self.head: dict[str, Any] = {
            "id": self.id,
            "object": piece if job.stream else whole,
            "created": int(time.time()),
            "model": site.settings.name,
            "system_fingerprint": site.fingerprint,
        }


def usage(job: Job, results: Sequence[Result]) -> dict[str, int]:
    """Return the usage of a whole answer; `results` are all samples, also those that `best_of` drops."""
    prompt = sum(map(len, job.prompts))
    completion = 0 if job.silent else sum(result.completion_tokens for result in results)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def record(result: Result) -> dict[str, Any]:
    """Return what speculation did for one sample."""
    done = result.speculation
    return {
        "drafter": done.drafter,
        "rule": done.rule,
        "guarantee": done.guarantee,
        "passes": done.passes,
        "drafted": done.drafted,
        "accepted": done.accepted,
        "tokens": done.tokens,
        "tokens_per_pass": done.mean_accepted_length,
        "acceptance_rate": done.acceptance_rate,
        "drafted_per_position": list(done.drafted_per_position),
        "accepted_per_position": list(done.accepted_per_position),
        "decode_tokens": result.timing.decode_tokens,
        "decode_seconds": result.timing.decode_seconds,
        "seed": result.seed,
        "sample": result.sample,
    }


def chat_logprobs(texts: TokenTexts, entries: Sequence[TokenLogprobs | None]) -> dict[str, Any]:
    """Return logprobs as chats have them."""

    def named(token: int, logprob: float) -> dict[str, Any]:
        held = texts.bytes_of(token)
        return {"token": texts.text_of(token), "logprob": max(logprob, LEAST), "bytes": list(held)}

    content = [
        {
            **named(entry.token, entry.logprob),
            "top_logprobs": [named(token, logprob) for token, logprob in entry.top],
        }
        for entry in entries
        if entry is not None
    ]
    return {"content": content, "refusal": None}


def legacy_logprobs(
    texts: TokenTexts, offsets: Offsets, entries: Sequence[TokenLogprobs | None], first: int
) -> dict[str, Any]:
    """Return logprobs as completions have them; an entry that is None stands for the token `first`."""
    tokens, logprobs, tops, begins = list[str](), list[float | None](), list[Any](), list[int]()
    for entry in entries:
        token = first if entry is None else entry.token
        tokens.append(texts.text_of(token))
        begins.append(offsets.next(texts.shown_bytes_of(token)))
        if entry is None:
            logprobs.append(None)
            tops.append(None)
            continue
        logprobs.append(max(entry.logprob, LEAST))
        top = {texts.text_of(other): max(logprob, LEAST) for other, logprob in reversed(entry.top)}
        top.setdefault(texts.text_of(entry.token), max(entry.logprob, LEAST))
        tops.append(dict(sorted(top.items(), key=lambda pair: -pair[1])))
    return {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": begins}
