"""Answers as server-sent events, written as they come: what is ready together goes out in one write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from outrider.engine.handle import Readers
from outrider.engine.result import Chunk, Result
from outrider.server.answer import Choice, Envelope, usage
from outrider.server.errors import dumps, of_exception
from outrider.server.site import Live, Site
from outrider.server.trail import Trail
from outrider.server.translate import Job
from outrider.server.work import Disconnected, check_end, held, unless_gone

PATIENCE = 10.0
"""Seconds without a token after which a comment is sent, so that nobody takes the connection for dead."""
HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
DONE = b"data: [DONE]\n\n"


class EventStream(Response):
    """The answer to a request that asks for a stream. Errors before its first event have their own status."""

    def __init__(
        self, site: Site, job: Job, live: Live, told: Callable[[Envelope, list[Result]], None]
    ) -> None:
        """`told` is called once, at the end, with all samples that have ended."""
        self.status_code, self.background = 200, None
        self._site, self._job, self._live, self._told = site, job, live, told
        self._envelope = Envelope(site, job)
        self._opening = "data: " + dumps(self._envelope.head).removesuffix("}")
        self._trails = [Trail(site, job) for _ in live.handles]
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the end, or until the client has left."""
        try:
            with held(self._site, self._live):
                try:
                    await unless_gone(receive, self._send(send))
                except Exception as error:
                    if isinstance(error, Disconnected):
                        raise
                    failure = of_exception(error)
                    if not self._begun:
                        raise failure from error
                    if failure.status == 500:
                        scope.setdefault("state", {})["failure"] = error
                    await send(_body(_event(failure.document) + DONE))
                    await send(_body(b"", more=False))
        finally:
            results = [handle.request.result for handle in self._live.handles]
            self._told(self._envelope, [result for result in results if result is not None])

    async def _send(self, send: Send) -> None:
        async for events in self._events():
            if not self._begun:
                self._begun = True
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            try:
                async with asyncio.timeout(self._site.settings.stall_timeout):
                    await send(_body(events))
            except TimeoutError:
                raise Disconnected from None
        await send(_body(b"", more=False))

    async def _events(self) -> AsyncIterator[bytes]:
        job, handles = self._job, self._live.handles
        choices = [Choice(self._site, job, index) for index in range(len(handles))]
        readers, fresh = Readers(handles), set(range(len(handles)))
        while ready := await _patiently(readers.next()):
            if isinstance(ready, bytes):
                yield ready
                continue
            events = bytearray()
            for index, chunks in _by_index(ready).items():
                first = index in fresh
                fresh.discard(index)
                piece = self._piece(choices[index], chunks, first=first)
                if piece is not None:
                    events += self._event([piece])
            if events:
                yield bytes(events)
        ending = b""
        if job.usage_chunk:
            results = [handle.request.result for handle in handles]
            ending = self._event([], usage(job, [result for result in results if result is not None]))
        yield ending + DONE

    def _piece(self, choice: Choice, chunks: list[Chunk], *, first: bool) -> dict[str, Any] | None:
        job, result = self._job, chunks[-1].result
        if result is not None:
            check_end(result)
        text = "".join(chunk.text for chunk in chunks)
        logprobs: list[Any] = [entry for chunk in chunks for entry in chunk.logprobs]
        if job.silent:
            text, logprobs = "", []
        if first and job.echoes is not None:
            text = job.echoes[choice.index // job.params.n] + text
            prompt = self._live.handles[choice.index].request.prompt_logprobs
            logprobs = [*(prompt or ()), *logprobs]
        trail = {} if job.silent else self._trails[choice.index].next(chunks)
        return choice.delta(text, logprobs, result, first=first, trail=trail)

    def _event(self, choices: list[dict[str, Any]], used: dict[str, int] | None = None) -> bytes:
        """Return one event; what all of them begin with was written once."""
        rest = f',"usage":{dumps(used)}' if self._job.usage_chunk else ""
        return f'{self._opening},"choices":{dumps(choices)}{rest}}}\n\n'.encode("ascii")


async def _patiently(waiting: Awaitable[list[tuple[int, Chunk]]]) -> list[tuple[int, Chunk]] | bytes:
    """Return what comes, or a comment where nothing has come for a while."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await waiting
    except TimeoutError:
        return b": waiting\n\n"


def _by_index(ready: list[tuple[int, Chunk]]) -> dict[int, list[Chunk]]:
    found: dict[int, list[Chunk]] = {}
    for index, chunk in ready:
        found.setdefault(index, []).append(chunk)
    return found


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + dumps(document).encode("ascii") + b"\n\n"


def _body(content: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": more}
