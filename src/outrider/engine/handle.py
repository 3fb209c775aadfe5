"""What a reader holds of a request that runs on another thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from outrider.engine.request import Request
from outrider.engine.result import Chunk, Result

Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Event]
"""A task that waits, by its event and the loop that it belongs to."""

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
        self._skips = False
        self.ended = False
        self._waiter: Waiter | None = None

    def put(self, chunk: Chunk) -> Waiter | None:
        """Hand over a chunk, with its result the last one; the lock is held.

        Returns whom to `wake` once it is no longer: whoever is woken wants the lock.
        """
        self.ended, self._error = self.request.result is not None, self.request.error
        if self._skips and not self.ended:
            return None
        self._chunks.append(chunk)
        self.request.paused = not self.ended and len(self._chunks) >= MOST_CHUNKS
        return self._notify()

    def fail(self, chunk: Chunk | None, error: Exception | None) -> Waiter | None:
        """End with an error, or without one; the lock is held, and what is returned is as from `put`."""
        if chunk is not None:
            self._chunks.append(chunk)
        self.ended, self._error = True, error
        return self._notify()

    def skip(self) -> None:
        """Pass over all chunks but the last from now on: the reader is woken once, at the end."""
        with self._ready:
            self._skips = True
            if not self.ended:
                self._chunks.clear()
                self._resume()

    def take_all(self) -> list[Chunk]:
        """Return what is ready, without waiting; raises what ended the request, after its last chunk."""
        taken: list[Chunk] = []
        with self._ready:
            while self._chunks and (chunk := self._take()) is not None:
                taken.append(chunk)
            if not taken:
                self._take()  # raises
        return taken

    def wake(self, loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
        """Set an event of a loop once there is something to take, at once where there is."""
        with self._ready:
            if self._chunks or self.ended:
                event.set()
            else:
                self._waiter = loop, event

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
        self._resume()
        return chunk

    def _resume(self) -> None:
        if self.request.paused and len(self._chunks) <= MOST_CHUNKS // 2:
            self.request.paused = False
            self._work.notify()

    def _notify(self) -> Waiter | None:
        self._ready.notify()
        waiter, self._waiter = self._waiter, None
        return waiter


def wake(waiters: Iterable[Waiter | None]) -> None:
    """Wake tasks of event loops, those of one loop together."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Event]] = {}
    for waiter in waiters:
        if waiter is not None:
            by_loop.setdefault(waiter[0], []).append(waiter[1])
    for loop, events in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(_set_all, events)


def _set_all(events: Iterable[asyncio.Event]) -> None:
    for event in events:
        event.set()


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
        self._channel.skip()
        for _ in self:
            pass
        assert self.request.result is not None
        return self.request.result

    async def wait(self) -> Result:
        """Do as `result` does, in an event loop."""
        self._channel.skip()
        async for _ in self:
            pass
        assert self.request.result is not None
        return self.request.result

    @property
    def ended(self) -> bool:
        """True when there is nothing more to come; something may still wait to be taken."""
        return self._channel.ended

    def take_all(self) -> list[Chunk]:
        """Return what is ready, without waiting; raises what ended the request, after its last chunk."""
        return self._channel.take_all()

    def wake(self, loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
        """Set an event of this loop once there is something to take, at once where there is."""
        self._channel.wake(loop, event)

    def skip(self) -> None:
        """Pass over all chunks but the last from now on, as `result` and `wait` do."""
        self._channel.skip()

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


class Readers:
    """Reads several requests side by side in an event loop: what all of them have ready comes at once."""

    def __init__(self, handles: Sequence[Handle]) -> None:
        self._handles = handles

    async def next(self) -> list[tuple[int, Chunk]]:
        """Wait for chunks and return all that are ready, each with the index of its handle; [] at the end.

        Raises what ended a request, after its last chunk.
        """
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        while True:
            ready = [(i, chunk) for i, handle in enumerate(self._handles) for chunk in handle.take_all()]
            waiting = [handle for handle in self._handles if not handle.ended]
            if ready or not waiting:
                return ready
            for handle in waiting:
                handle.wake(loop, event)
            await event.wait()
            event.clear()
