"""An engine on a thread of its own, for requests from any thread or event loop."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Unpack

from outrider.engine.engine import Engine
from outrider.engine.handle import Channel, Handle, wake
from outrider.engine.intake import RequestOptions
from outrider.engine.request import Request
from outrider.errors import UsageError
from outrider.sampling.params import SamplingParams


class Service:
    """Drives an engine on a thread of its own; every method may be called from any thread.

    `close` (also at the end of a `with` block) ends all requests and the thread. Where a step fails for a
    reason that no single request has given, all requests end with that error, and later ones start anew.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.RLock()  # whoever drops a handle may hold it
        self._work = threading.Condition(self._lock)
        self._arrived: list[Channel] = []
        self._cancelled: list[Channel] = []
        self._live: dict[int, Channel] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="outrider", daemon=True)
        self._thread.start()

    def submit(
        self, prompt: Sequence[int], params: SamplingParams, **options: Unpack[RequestOptions]
    ) -> Handle:
        """Take a request as `Engine.submit` does; its errors are raised at once."""
        request = self._engine.prepare(prompt, params, **options)
        channel = Channel(request, threading.Condition(self._lock), self._work)
        with self._lock:
            if self._closing:
                raise UsageError("this service is closed and takes no more requests")
            self._engine.check_queue(len(self._arrived))
            self._arrived.append(channel)
            self._work.notify()
        return Handle(channel, self._cancel)

    def close(self) -> None:
        """End all requests, "abort", and the thread; nothing where that was done."""
        with self._lock:
            self._closing = True
            self._work.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cancel(self, channel: Channel) -> None:
        with self._lock:
            if not channel.ended and not self._closing:
                self._cancelled.append(channel)
                self._work.notify()

    def _run(self) -> None:
        while self._collect():
            try:
                events = self._engine.step()
            except Exception as error:  # whatever it is, nobody may wait for ever
                self._end_all(error)
                continue
            waiters = []
            with self._lock:
                for event in events:
                    channel = self._live[event.request.number]
                    waiters.append(channel.put(event.chunk))
                    self._forget_ended(event.request)
            wake(waiters)
        self._end_all(None)

    def _collect(self) -> bool:
        """Wait until there is something to do, and take what has come; False at the end."""
        waiters = []
        with self._lock:
            while not (self._closing or self._arrived or self._cancelled) and self._engine.idle:
                if not self._work.wait(self._engine.seconds_left):
                    break  # somebody's time is over
            arrived, self._arrived = self._arrived, []
            cancelled, self._cancelled = self._cancelled, []
            for channel in arrived:
                self._live[channel.request.number] = channel
                self._engine.enqueue(channel.request)
            for channel in cancelled:
                event = self._engine.abort(channel.request)
                if event is not None:
                    waiters.append(channel.put(event.chunk))
                self._forget_ended(channel.request)
            closing = self._closing
        wake(waiters)
        return not closing

    def _forget_ended(self, request: Request) -> None:
        if request.result is not None:
            self._live.pop(request.number, None)

    def _end_all(self, error: Exception | None) -> None:
        """End every live request, with an error where there was one."""
        waiters = []
        with self._lock:
            for channel in [*self._live.values(), *self._arrived]:
                event = self._engine.abort(channel.request)
                waiters.append(channel.fail(event.chunk if event is not None else None, error))
            self._live, self._arrived, self._cancelled = {}, [], []
        wake(waiters)
