"""One request as an iterator: text as it comes, and an end at any moment."""

from __future__ import annotations

from collections.abc import Iterator

from outrider.engine.engine import Engine
from outrider.engine.request import Request
from outrider.engine.result import Chunk, Result


class Stream(Iterator[Chunk]):
    """Chunks of one request; the last one carries the result.

    `close` (also at the end of a `with` block, or when the stream is dropped) aborts the request and frees
    what it held. An error that ends the request is raised after its last chunk. After an interrupt `close`
    still gives the tokens that were committed until then.
    """

    def __init__(self, engine: Engine, request: Request) -> None:
        self._engine, self._request = engine, request
        self._ready: list[Chunk] = []

    def __next__(self) -> Chunk:
        while not self._ready:
            if self._request.error is not None:
                raise self._request.error
            if self._request.result is not None:
                raise StopIteration
            self._ready = [event.chunk for event in self._engine.step()]
        return self._ready.pop(0)

    @property
    def result(self) -> Result | None:
        """The result, once the request has ended."""
        return self._request.result

    def close(self) -> Result:
        """End the request if it has not ended and return its result, "abort" where it was cut short."""
        self._engine.abort(self._request)
        assert self._request.result is not None
        return self._request.result

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
