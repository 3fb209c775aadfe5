"""Who may run at once: cancelling, threads that share a model or a cache, forks, a lack of threads."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import outrider
from outrider.loop.verify.pack import Part, pack
from outrider.models.base import Batch
from outrider.native import _core
from outrider.native.decoder import NativeDecoder, usable_processors
from outrider.native.kv import NativeCache
from outrider.types import DraftTree
from pass_conformance import logits_alone
from tiny import RandomSource, tiny_config


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def slow() -> NativeDecoder:
    """A model whose pass over `LONG` takes seconds, and its single layer a small part of them."""
    config = tiny_config(layers=60, hidden=96, inner=128)
    return NativeDecoder(config, RandomSource(config), weights="fp32", isa="portable")


LONG = pack([Part(0, [token % 97 for token in range(1000)], DraftTree(), True)])


class Running:
    """A long pass in another thread; the body of `with` starts once it holds its cache."""

    def __init__(self, model: NativeDecoder, cache: NativeCache, batch: Batch = LONG) -> None:
        self.model, self.cache, self.batch = model, cache, batch
        self.error: BaseException | None = None
        self.logits: torch.Tensor | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.logits = self.model.forward(self.batch, [self.cache])
        except BaseException as error:
            self.error = error

    @property
    def busy(self) -> bool:
        try:
            self.cache.core.truncate(self.cache.length)
        except RuntimeError as error:
            assert "in use by a running pass" in str(error)  # noqa: PT017
            return True
        return False

    def __enter__(self) -> Running:
        self._thread.start()
        while not self.busy and self._thread.is_alive():
            time.sleep(1e-4)
        return self

    def __exit__(self, *_: object) -> None:
        self.model.cancel()
        self._thread.join()


def test_a_running_pass_can_be_cancelled_and_leaves_nothing_pending(slow: NativeDecoder) -> None:
    expected = logits_alone(slow, [1, 2, 3])
    cache = slow.new_cache()
    slow.forward(pack([Part(0, [1, 2], DraftTree(), False)]), [cache])
    cache.keep(range(2))
    other = slow.new_cache()
    with Running(slow, other) as running:
        pass
    assert isinstance(running.error, _core.Cancelled)
    assert other.length == 0
    with pytest.raises(ValueError, match="0 rows are pending"):
        other.keep([0])
    for reused, text in ((cache, [3]), (other, [1, 2, 3])):
        part = Part(reused.length, text, DraftTree(), True)
        assert torch.equal(slow.forward(pack([part]), [reused])[0], expected)


def test_cancelling_when_nothing_runs_does_nothing(slow: NativeDecoder) -> None:
    expected = logits_alone(slow, [1, 2, 3])
    slow.cancel()
    assert torch.equal(logits_alone(slow, [1, 2, 3]), expected)


def test_python_runs_on_while_a_pass_does(slow: NativeDecoder) -> None:
    with Running(slow, slow.new_cache()) as running:
        steps = 0
        while running.busy and steps < 1000:
            steps += 1
        assert steps == 1000
    assert isinstance(running.error, _core.Cancelled)


def test_a_cache_that_a_pass_writes_to_is_not_touched(slow: NativeDecoder) -> None:
    config = tiny_config(layers=60, hidden=32, inner=32)
    another = NativeDecoder(config, RandomSource(config), weights="fp32")
    cache = slow.new_cache()
    with Running(slow, cache) as running:
        uses: list[Callable[[], Any]] = [lambda: cache.keep([0]), lambda: cache.truncate(0)]
        for use in uses:
            with pytest.raises(RuntimeError, match="in use by a running pass"):
                use()
        with pytest.raises(ValueError, match="in use by another pass"):
            another.forward(pack([Part(0, [1], DraftTree(), True)]), [cache])
        assert running.busy
    assert cache.length == 0


def test_positions_that_grow_wait_for_the_pass_that_runs() -> None:
    """The angles of new positions once moved the table that the pass of another thread was reading."""
    config = tiny_config(layers=20, hidden=96, inner=128)
    model = NativeDecoder(config, RandomSource(config), weights="fp32", isa="portable")
    batch = pack([Part(0, [token % 97 for token in range(400)], DraftTree(), True)])
    expected = model.forward(batch, [model.new_cache()])
    far = Batch((1,), (2000,), (0,), (-1,), (0,))
    with Running(model, model.new_cache(), batch) as running:
        assert running.busy
        with pytest.raises(ValueError, match="position 2000 of row 0 should be 0"):
            model.forward(far, [model.new_cache()])
    assert running.logits is not None
    assert torch.equal(running.logits, expected)


def test_threads_that_share_a_model_take_turns() -> None:
    config = tiny_config(context_limit=4096)
    texts = [[(7 * i + seed) % 97 for i in range(40 + 60 * seed)] for seed in range(6)]
    expected = [
        logits_alone(NativeDecoder(config, RandomSource(config), weights="fp32"), text) for text in texts
    ]
    model = NativeDecoder(config, RandomSource(config), weights="fp32")
    found: list[list[torch.Tensor]] = [[] for _ in texts]

    def work(which: int) -> None:
        for _ in range(5):
            found[which].append(logits_alone(model, texts[which]))

    workers = [threading.Thread(target=work, args=(which,)) for which in range(len(texts))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for logits, results in zip(expected, found, strict=True):
        assert len(results) == 5
        assert all(torch.equal(logits, result) for result in results)


def test_a_pass_waits_for_the_one_before_it(slow: NativeDecoder) -> None:
    short = pack([Part(0, [1], DraftTree(), True)])
    with Running(slow, slow.new_cache()) as running:
        done = threading.Event()
        waiting = threading.Thread(
            target=lambda: (slow.forward(short, [slow.new_cache()]), done.set())  # type: ignore[func-returns-value]
        )
        waiting.start()
        assert not done.wait(0.02)
        assert running.busy
        slow.cancel()
        assert done.wait(60)
        waiting.join()
    assert isinstance(running.error, _core.Cancelled)


def in_child(model: NativeDecoder, pipe: Any) -> None:
    pipe.send(logits_alone(model, [1, 2, 3, 4]).tolist())
    del model
    pipe.send("still here")


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_model_can_be_used_after_a_fork() -> None:
    """The team's sleeping threads are gone in the child; destroying what they slept on once took forever."""
    config = tiny_config()
    model = NativeDecoder(config, RandomSource(config), weights="fp32")
    torch.set_num_threads(3)
    expected = logits_alone(model, [1, 2, 3, 4])
    time.sleep(0.05)  # the team falls asleep
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=in_child, args=(model, theirs))
    child.start()
    try:
        assert ours.poll(20), "the child hangs"
        assert torch.equal(torch.tensor(ours.recv()), expected)
        assert ours.poll(20), "the child hangs when it lets go of the model"
        ours.recv()
        child.join(20)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()
    assert torch.equal(logits_alone(model, [1, 2, 3, 4]), expected)  # and here as before


FEW_THREADS = """
import resource, sys
sys.path[:0] = sys.argv[1:]
import torch
from outrider.models.base import Batch
from outrider.native.decoder import NativeDecoder
from tiny import RandomSource, tiny_config

NativeDecoder.most_threads = 1024
config = tiny_config()
model = NativeDecoder(config, RandomSource(config), weights="fp32")
batch, cache = Batch((1,), (0,), (0,), (-1,), (0,)), model.new_cache()
expected = model.forward(batch, [cache])
cache.keep([0])
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 28), resource.RLIM_INFINITY))
torch.get_num_threads = lambda: 900
try:
    model.forward(Batch((2,), (1,), (0,), (-1,), (0,)), [cache])
except RuntimeError as error:
    print("refused:", error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
torch.get_num_threads = lambda: 3
assert cache.length == 1
print(torch.equal(model.forward(batch, [model.new_cache()]), expected))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.skipif("OUTRIDER_CORE" in os.environ, reason="sanitizers need all of the address space")
def test_where_the_system_has_no_more_threads_a_pass_fails_and_the_next_one_runs() -> None:
    """Half a team once hung the process: its threads were never told to stop."""
    words = [
        sys.executable,
        "-c",
        FEW_THREADS,
        str(Path(outrider.__file__).parents[1]),
        str(Path(__file__).parents[1]),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("refused: ")
    assert done.stdout.splitlines()[1] == "True"


def test_no_more_threads_run_than_there_are_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 64 threads on two cores a pass took fifty times as long: each waited for all the others."""
    asked: list[int] = []

    class Watched:
        def __init__(self, core: object) -> None:
            self.core = core

        def run(self, *arguments: object) -> None:
            asked.append(arguments[6])  # type: ignore[arg-type]
            self.core.run(*arguments)  # type: ignore[attr-defined]

        def set_rotation(self, *arguments: object) -> None:
            self.core.set_rotation(*arguments)  # type: ignore[attr-defined]

    config = tiny_config()
    model = NativeDecoder(config, RandomSource(config), weights="fp32")
    monkeypatch.setattr(model, "_core", Watched(model._core))
    monkeypatch.setattr(NativeDecoder, "most_threads", 2)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            model.forward(Batch((1,), (0,), (0,), (-1,), (0,)), [model.new_cache()])
    finally:
        torch.set_num_threads(before)
    assert asked == [1, 2, 2]
    assert usable_processors() >= 1


ONE_PROCESSOR = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.path[:0] = sys.argv[1:]
import torch
from outrider.models.base import Batch
from outrider.native.decoder import NativeDecoder
from tiny import RandomSource, tiny_config

config = tiny_config()
model = NativeDecoder(config, RandomSource(config), weights="fp32")
NativeDecoder.most_threads = 4

def logits_on(threads):
    torch.set_num_threads(threads)
    return model.forward(Batch((1, 2), (0, 1), (0, 0), (-1, 0), (0, 1)), [model.new_cache()])

expected = logits_on(1)
counts = []
for _ in range(60):
    assert torch.equal(logits_on(4), expected)
    counts.append(model._core.threads)
print(*counts)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be kept to a processor here")
def test_threads_that_must_share_a_processor_leave_the_pass_to_fewer_and_are_tried_again() -> None:
    """With another program on one of two cores a pass on both took four times as long as one on a single
    core: at each barrier a thread waited for the scheduler to give the other its turn."""
    roots = [str(Path(outrider.__file__).parents[1]), str(Path(__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", ONE_PROCESSOR, *roots], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    counts = [int(count) for count in done.stdout.split()]
    assert counts[0] == 4
    assert 1 in counts[:20]
    assert counts.count(1) > len(counts) / 2
    assert 2 in counts[counts.index(1) :]
