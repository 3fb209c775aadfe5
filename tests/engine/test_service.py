"""A service takes requests from threads and event loops; nobody waits for ever, and nothing stays held."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import VOCAB, RandomTrees, plain_tokens, toy_model
from outrider.engine.engine import Engine
from outrider.engine.handle import MOST_CHUNKS, Readers
from outrider.engine.scheduler import Limits
from outrider.engine.service import Service
from outrider.errors import OptionError, OverloadedError, PromptError, UsageError
from outrider.models.toy import ToyTarget
from outrider.sampling.params import SamplingParams

TARGET = ToyTarget(VOCAB, seed=1)
PROMPT = [1, 2, 3]
ENDLESS = SamplingParams(temperature=1.0, seed=1, ignore_eos=True, max_tokens=100_000)


def engine_over(target: Any = TARGET, **options: Any) -> Engine:
    return Engine(toy_model(target), RandomTrees(1), drafter_name="random", budget=2, **options)


@pytest.fixture
def engine() -> Engine:
    return engine_over()


@pytest.fixture
def service(engine: Engine) -> Iterator[Service]:
    with Service(engine) as made:
        yield made


def sampled(seed: int, count: int = 20) -> SamplingParams:
    return SamplingParams(temperature=1.0, seed=seed, max_tokens=count, ignore_eos=True)


def until(condition: Any) -> None:
    """Wait for something that another thread brings about."""
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it never came about")


def test_requests_of_many_threads_each_get_their_own_text(service: Service) -> None:
    found: dict[int, tuple[int, ...]] = {}

    def ask(seed: int) -> None:
        chunks = list(service.submit(PROMPT, sampled(seed)))
        found[seed] = tuple(token for chunk in chunks for token in chunk.token_ids)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(12):
        assert list(found[seed]) == plain_tokens(TARGET, PROMPT, sampled(seed), 20)


def test_an_event_loop_reads_many_requests_side_by_side(service: Service) -> None:
    async def ask(seed: int) -> tuple[int, ...]:
        tokens: list[int] = []
        async for chunk in service.submit(PROMPT, sampled(seed)):
            tokens += chunk.token_ids
        return tuple(tokens)

    async def all_of_them() -> list[tuple[int, ...]]:
        return await asyncio.gather(*(ask(seed) for seed in range(12)))

    for seed, tokens in enumerate(asyncio.run(all_of_them())):
        assert list(tokens) == plain_tokens(TARGET, PROMPT, sampled(seed), 20)


def test_a_reader_that_stops_reading_is_not_run_ahead_of_and_holds_up_nobody(service: Service) -> None:
    slow = service.submit(PROMPT, ENDLESS)
    until(lambda: slow.request.paused)
    made = len(slow.request.sequence.tokens)
    assert service.submit(PROMPT, sampled(2)).result().completion_tokens == 20
    assert len(slow.request.sequence.tokens) == made
    for _ in range(MOST_CHUNKS):
        next(slow)
    until(lambda: len(slow.request.sequence.tokens) > made)


def test_a_cancelled_reader_frees_what_it_held(engine: Engine, service: Service) -> None:
    async def reader() -> None:
        async for _ in service.submit(PROMPT, ENDLESS):
            pass

    async def cancelled() -> None:
        task = asyncio.create_task(reader())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    until(lambda: not engine.busy)


def test_a_dropped_handle_and_a_block_that_ends_free_what_they_held(engine: Engine, service: Service) -> None:
    next(service.submit(PROMPT, ENDLESS))  # dropped at once
    with service.submit(PROMPT, ENDLESS) as handle:
        next(handle)
    until(lambda: not engine.busy)
    assert handle.request.result is not None
    assert handle.request.result.finish_reason == "abort"


def test_what_is_wrong_with_a_request_is_raised_where_it_is_submitted(service: Service) -> None:
    with pytest.raises(PromptError, match="empty"):
        service.submit([], SamplingParams())
    with pytest.raises(OptionError, match="timeout"):
        service.submit(PROMPT, SamplingParams(), timeout=-1)


def test_a_function_of_the_user_that_fails_ends_its_own_request_alone(service: Service) -> None:
    def broken(tokens: Any, logits: Any) -> Any:
        raise ZeroDivisionError("mine")

    bad = service.submit(PROMPT, SamplingParams(logits_processors=(broken,)))
    good = service.submit(PROMPT, sampled(4))
    with pytest.raises(OptionError, match="ZeroDivisionError"):
        bad.result()
    assert list(good.result().token_ids) == plain_tokens(TARGET, PROMPT, sampled(4), 20)


def test_a_pass_that_fails_ends_what_runs_with_its_error_and_later_requests_are_served() -> None:
    class Fragile(ToyTarget):
        fails = False

        def forward(self, batch: Any, caches: Any) -> Any:
            if self.fails:
                raise RuntimeError("the device is gone")
            return super().forward(batch, caches)

    target = Fragile(VOCAB, seed=1)
    with Service(engine_over(target)) as service:
        first = service.submit(PROMPT, ENDLESS)
        next(first)
        target.fails = True
        with pytest.raises(RuntimeError, match="the device is gone"):
            list(first)
        target.fails = False
        assert list(service.submit(PROMPT, sampled(3)).result().token_ids) == plain_tokens(
            TARGET, PROMPT, sampled(3), 20
        )


def test_a_closed_service_has_ended_everything_and_takes_nothing_more(engine: Engine) -> None:
    service = Service(engine)
    running = service.submit(PROMPT, ENDLESS)
    next(running)
    service.close()
    service.close()
    for _ in running:
        pass
    assert running.request.result is not None
    assert running.request.result.finish_reason == "abort"
    assert not engine.busy
    with pytest.raises(UsageError, match="closed"):
        service.submit(PROMPT, ENDLESS)


def test_time_runs_out_also_for_a_request_that_nobody_reads(service: Service) -> None:
    handle = service.submit(PROMPT, ENDLESS, timeout=0.2)
    until(lambda: handle.request.result is not None)
    assert handle.request.result is not None
    assert handle.request.result.finish_reason == "timeout"


def test_a_full_queue_is_told_to_whoever_submits() -> None:
    with Service(engine_over(limits=Limits(running=1, waiting=0))) as service:
        running = service.submit(PROMPT, ENDLESS)
        next(running)
        with pytest.raises(OverloadedError):
            service.submit(PROMPT, ENDLESS)


def test_readers_give_what_many_requests_have_ready_at_once_and_nothing_twice(service: Service) -> None:
    async def read() -> dict[int, list[int]]:
        readers = Readers([service.submit(PROMPT, sampled(seed)) for seed in range(5)])
        found: dict[int, list[int]] = {}
        while ready := await readers.next():
            for index, chunk in ready:
                found.setdefault(index, []).extend(chunk.token_ids)
        return found

    found = asyncio.run(read())
    for seed in range(5):
        assert found[seed] == plain_tokens(TARGET, PROMPT, sampled(seed), 20)


def test_readers_raise_what_ended_a_request_after_its_last_chunk(service: Service) -> None:
    def broken(tokens: Any, logits: Any) -> Any:
        raise ZeroDivisionError("mine")

    async def read() -> None:
        readers = Readers([service.submit(PROMPT, SamplingParams(logits_processors=(broken,)))])
        while await readers.next():
            pass

    with pytest.raises(OptionError, match="ZeroDivisionError"):
        asyncio.run(read())


def test_who_waits_for_the_result_alone_is_not_paused_and_woken_once(service: Service) -> None:
    """A reader that passes over chunks need not take them: the request is never paused for it."""
    handle = service.submit(PROMPT, ENDLESS)
    until(lambda: handle.request.paused)  # nobody reads yet
    params = SamplingParams(temperature=1.0, seed=1, ignore_eos=True, max_tokens=4 * MOST_CHUNKS)
    other = service.submit(PROMPT, params)
    until(lambda: other.request.paused)
    assert other.result().completion_tokens == 4 * MOST_CHUNKS
    assert asyncio.run(service.submit(PROMPT, params).wait()).token_ids == other.result().token_ids
