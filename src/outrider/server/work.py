"""Runs a job on the engine: submits its samples, and sees to it that nothing stays held."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from starlette.types import Receive

from outrider.engine.handle import Handle
from outrider.engine.intake import RequestOptions
from outrider.engine.result import Result
from outrider.engine.samples import gather
from outrider.sampling.params import OUTPUT_GRAMMARS
from outrider.server.errors import unavailable
from outrider.server.schema import ChatRequest, Common
from outrider.server.site import Live, Site
from outrider.server.translate import Job

Value = TypeVar("Value")

LONG = 16 << 10
"""Bytes of a body from which on it is tokenized beside the event loop."""


class Disconnected(Exception):  # noqa: N818 - no error of anyone's
    """The client has left."""


def submit(site: Site, job: Job, live: Live) -> None:
    """Submit all samples of all prompts, as `submit_samples` does, or none."""
    try:
        for prompt in job.prompts:
            seed = secrets.randbits(63) if job.params.seed is None else job.params.seed
            params = replace(job.params, seed=seed)
            for sample in range(params.samples):
                options: RequestOptions = {**job.options, "sample": sample}
                live.handles.append(site.service.submit(prompt, params, **options))
    except BaseException:
        live.cancel()
        raise


@contextmanager
def held(site: Site, live: Live) -> Iterator[None]:
    """Know of a request while the block runs; at its end nothing of it is left in the engine."""
    site.live.add(live)
    try:
        yield
    finally:
        site.live.discard(live)
        live.cancel()
        for handle in live.handles:
            site.metrics.observe(handle.request, live.arrived)


async def prepare(site: Site, body: Common, size: int, make: Callable[[], Job], live: Live) -> Job:
    """Translate a request and submit it: at once where that is quick, else on another thread."""

    def run() -> Job:
        job = make()
        submit(site, job, live)
        return job

    if _has_grammar(body):
        return await asyncio.get_running_loop().run_in_executor(site.compiling, run)
    return await asyncio.to_thread(run) if size > LONG else run()


async def results_of(job: Job, live: Live) -> tuple[list[Result], list[Result]]:
    """Wait for the end of a job; return its choices in order, and all its samples.

    Raises what ended one of them; ApiError where the server or the time ended it before it had begun.
    """
    for handle in live.handles:
        handle.skip()  # before any is waited for: one that nobody reads would be paused
    for handle in live.handles:
        result = await handle.wait()
        check_end(result)
    chosen: list[Result] = []
    for handles in by_prompt(job, live.handles):
        chosen += gather([handle.request for handle in handles], job.params).samples
    return chosen, [handle.request.result for handle in live.handles if handle.request.result is not None]


def by_prompt(job: Job, handles: Sequence[Handle]) -> list[Sequence[Handle]]:
    """Return the handles of each prompt's samples."""
    each = job.params.samples
    return [handles[start : start + each] for start in range(0, len(handles), each)]


def check_end(result: Result) -> None:
    """Raise ApiError for a sample that ended without an answer."""
    if result.finish_reason == "abort":
        raise unavailable("the server is shutting down; send the request again", "shutting_down")
    if result.finish_reason == "timeout" and not result.token_ids:
        raise unavailable("no answer had begun when the request's time was over", "timeout")


async def unless_gone(receive: Receive, work: Awaitable[Value]) -> Value:
    """Return what `work` gives; Disconnected, and `work` is cancelled, once the client has left."""
    worker = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({worker, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if not worker.done():
            raise Disconnected
        return worker.result()
    finally:
        watcher.cancel()
        worker.cancel()
        await asyncio.gather(watcher, worker, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def check_takes(site: Site) -> None:
    """Raise ApiError where the server takes no more requests."""
    if site.draining:
        raise unavailable("the server is shutting down and takes no more requests", "shutting_down")


def _has_grammar(body: Common) -> bool:
    format = isinstance(body, ChatRequest) and body.response_format is not None
    return format or any(getattr(body.outrider, name, None) for name in OUTPUT_GRAMMARS)
