"""What a reader holds of a request that runs on another thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator

from outrider.engine.request import Request
from outrider.engine.result import Chunk, Result

MOST_CHUNKS = 64
"""Chunks that may wait for their reader before its request is paused."""


class Channel:
    """Chunks on their way from the engine's thread to a reader.

    `ready` is notified when there is something to take, `work` when the engine may go on; both share a lock.
    """

    def __init__(self, request: Request, ready: threading.Condition, work: threading.Condition) -> None:
        self.request = request
        self._ready, self._work = ready, work
        self._chunks: deque[Chunk] = deque()
        self._error: Exception | None = None
        self.ended = False
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def put(self, chunk: Chunk) -> None:
        """Hand over a chunk, with its result the last one; the lock is held."""
        self._chunks.append(chunk)
        self.ended, self._error = self.request.result is not None, self.request.error
        self.request.paused = not self.ended and len(self._chunks) >= MOST_CHUNKS
        self._wake()

    def fail(self, chunk: Chunk | None, error: Exception | None) -> None:
        """End with an error, or without one; the lock is held."""
        if chunk is not None:
            self._chunks.append(chunk)
        self.ended, self._error = True, error
        self._wake()

    def next(self) -> Chunk | None:
        """Wait for a chunk and return it; None at the end. Raises what ended the request."""
        with self._ready:
            while not self._chunks and not self.ended:
                self._ready.wait()
            return self._take()

    async def anext(self) -> Chunk | None:
        """Do as `next` does, in an event loop."""
        while True:
            with self._ready:
                if self._chunks or self.ended:
                    return self._take()
                event = asyncio.Event()
                self._waiter = asyncio.get_running_loop(), event
            await event.wait()

    def _take(self) -> Chunk | None:
        if not self._chunks:
            if self._error is not None:
                raise self._error
            return None
        chunk = self._chunks.popleft()
        if self.request.paused and len(self._chunks) <= MOST_CHUNKS // 2:
            self.request.paused = False
            self._work.notify()
        return chunk

    def _wake(self) -> None:
        self._ready.notify()
        if self._waiter is not None:
            (loop, event), self._waiter = self._waiter, None
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)


class Handle(Iterator[Chunk], AsyncIterator[Chunk]):
    """One submitted request: an iterator over its chunks, for a thread or an event loop (`async for`).

    A reader that falls `MOST_CHUNKS` chunks behind has its request paused until it has caught up by half.
    `cancel` ends the request within one step; so do the end of a `with` or `async with` block, a cancelled
    `async for`, and dropping the handle. An error that ends the request is raised after its last chunk. One
    reader at a time.
    """

    def __init__(self, channel: Channel, cancel: Callable[[Channel], None]) -> None:
        self._channel, self._cancel = channel, cancel

    @property
    def request(self) -> Request:
        """The request; its `result` stands once it has ended."""
        return self._channel.request

    def __next__(self) -> Chunk:
        chunk = self._channel.next()
        if chunk is None:
            raise StopIteration
        return chunk

    async def __anext__(self) -> Chunk:
        try:
            chunk = await self._channel.anext()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    def result(self) -> Result:
        """Wait for the end, passing over chunks, and return the result; raises what ended the request."""
        for _ in self:
            pass
        assert self.request.result is not None
        return self.request.result

    async def wait(self) -> Result:
        """Do as `result` does, in an event loop."""
        async for _ in self:
            pass
        assert self.request.result is not None
        return self.request.result

    def cancel(self) -> None:
        """End the request, "abort", if it has not ended; what it held is free after the step that runs."""
        self._cancel(self._channel)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    async def __aenter__(self) -> Handle:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()

    def __del__(self) -> None:
        self.cancel()
