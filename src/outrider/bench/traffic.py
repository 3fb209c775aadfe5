"""Requests that arrive at one engine while it runs, and what each of them and each step took."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from outrider.engine.engine import Engine, Event
from outrider.engine.request import Request
from outrider.engine.result import Result
from outrider.sampling.params import SamplingParams

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Load:
    """How requests come: from `clients` that each ask again once they are answered, or `rate` a second."""

    clients: int | None = None
    """Closed loop: so many requests are always on their way, as long as there are any left."""
    rate: float | None = None
    """Open loop: requests arrive at random (Poisson), whatever has become of those before them."""

    def __post_init__(self) -> None:
        assert (self.clients is None) != (self.rate is None), "a load is closed or open"

    def arrivals(self, count: int, seed: int) -> list[float] | None:
        """Return when each request arrives, in seconds from the start; None in a closed loop.

        The same seed gives the same times.
        """
        if self.rate is None:
            return None
        gaps = np.random.default_rng(seed).exponential(1 / self.rate, size=count)
        return [float(moment) for moment in np.cumsum(gaps)]

    def listed(self, items: Sequence[Item], count: int | None) -> list[Item]:
        """Return what a run asks for: `count` items in turn; with None all, two at least for each client."""
        wanted = max(len(items), 2 * (self.clients or 0)) if count is None else count
        return [items[index % len(items)] for index in range(wanted)]


@dataclass(frozen=True, slots=True)
class Answer:
    """One request: when it came, was begun and was answered, in seconds from the start of the run."""

    result: Result
    arrived: float
    begun: float
    chunks: tuple[tuple[float, int], ...]
    """When each chunk came, and how many tokens it carried: several where guesses were kept."""

    @property
    def time_to_first_token(self) -> float:
        """Seconds from arrival to the first chunk."""
        return self.chunks[0][0] - self.arrived

    @property
    def time_per_token(self) -> float | None:
        """Seconds a token after the first chunk; None where the answer ended with it."""
        later = sum(tokens for _, tokens in self.chunks[1:])
        return (self.chunks[-1][0] - self.chunks[0][0]) / later if later else None

    @property
    def gaps(self) -> list[float]:
        """Seconds from each chunk to the next one."""
        times = [moment for moment, _ in self.chunks]
        return [after - before for before, after in itertools.pairwise(times)]


@dataclass(slots=True)
class Counts:
    """What the steps of a run did. Only those that emitted tokens could have drafted."""

    steps: int = 0
    emitting: int = 0
    """Steps that emitted tokens; the others only read prompts."""
    undrafted: int = 0
    """Steps among them in which nothing was drafted."""
    rows: int = 0
    """Sequences that emitted tokens, summed over steps."""
    nodes: int = 0
    tokens: int = 0

    def add(self, rows: int, nodes: int, tokens: int) -> None:
        """Add one step: sequences that emitted, nodes they drafted, tokens they emitted."""
        self.steps += 1
        self.emitting += rows > 0
        self.undrafted += rows > 0 and nodes == 0
        self.rows += rows
        self.nodes += nodes
        self.tokens += tokens


@dataclass(slots=True)
class Steps(Counts):
    """The steps of a run of the engine, with their seconds."""

    seconds: float = 0.0
    target_seconds: float = 0.0
    draft_seconds: float = 0.0


@dataclass(slots=True)
class Depths:
    """Drafts by depth: how many reached it, how many of these kept all before it, how many kept it too."""

    reached: list[int] = field(default_factory=list)
    tried: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)

    def add(self, reached: int, kept: int) -> None:
        """Add a draft that was `reached` deep, and of which `kept` tokens were kept."""
        for counts, depth in (
            (self.reached, reached),
            (self.tried, min(reached, kept + 1)),
            (self.kept, kept),
        ):
            counts += [0] * (reached - len(counts))
            for index in range(depth):
                counts[index] += 1


@dataclass(frozen=True, slots=True)
class Run:
    """All answers of one run, in the order of its prompts, and its steps."""

    answers: tuple[Answer, ...]
    steps: Steps
    seconds: float
    """From the start to the last answer."""
    depths: Depths = field(default_factory=Depths)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all answers over the time of the whole run."""
        return sum(answer.result.completion_tokens for answer in self.answers) / self.seconds


@dataclass(slots=True)
class _Open:
    """A request on its way, with what had been seen of it after the last step."""

    index: int
    request: Request
    arrived: float
    chunks: list[tuple[float, int]] = field(default_factory=list)
    steps: int = 0
    target: float = 0.0
    draft: float = 0.0


def drive(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    load: Load,
    *,
    most: Sequence[int] | None = None,
    seed: int = 0,
) -> Run:
    """Run prompts through an engine under a load, one thread, arrivals taken between steps.

    `most`: tokens that each may be answered with; None: `params.max_tokens`. `seed` is that of the arrivals
    of an open loop. Raises what ended a request that could not go on.
    """
    arrivals = load.arrivals(len(prompts), seed)
    answers: list[Answer | None] = [None] * len(prompts)
    live: dict[int, _Open] = {}
    steps, depths, coming = Steps(), Depths(), 0
    started = time.perf_counter()
    while coming < len(prompts) or live:
        now = time.perf_counter() - started
        while coming < len(prompts):
            if len(live) >= (load.clients or 0) if arrivals is None else arrivals[coming] > now:
                break
            own = params if most is None else replace(params, max_tokens=most[coming])
            request = engine.submit(prompts[coming], own)
            live[request.number] = _Open(coming, request, now if arrivals is None else arrivals[coming])
            coming += 1
        if not live:
            assert arrivals is not None
            time.sleep(max(0.0, arrivals[coming] - (time.perf_counter() - started)))
            continue
        before = time.perf_counter()
        events = engine.step()
        after = time.perf_counter()
        _count(steps, live.values(), after - before)
        for event in events:
            if event.request.error is not None:
                raise event.request.error
            if event.chunk.result is not None:
                for record in event.request.sequence.steps:
                    depths.add(record.reached, record.committed.kept)
            _take(event, live, answers, started, after - started)
    seconds = time.perf_counter() - started
    return Run(tuple(answer for answer in answers if answer is not None), steps, seconds, depths)


def _take(
    event: Event, live: dict[int, _Open], answers: list[Answer | None], started: float, now: float
) -> None:
    """Note a chunk; with the last one the answer is whole."""
    open_ = live[event.request.number]
    chunk = event.chunk
    if chunk.token_ids or (chunk.result is not None and not open_.chunks):
        open_.chunks.append((now, len(chunk.token_ids)))
    if chunk.result is not None:
        begun = event.request.clock.begun
        assert begun is not None, "what was answered was begun"
        answers[open_.index] = Answer(chunk.result, open_.arrived, begun - started, tuple(open_.chunks))
        del live[event.request.number]


def _count(steps: Steps, live: Iterable[_Open], seconds: float) -> None:
    """Add one step of the engine, going by what it changed of the requests on their way."""
    target = draft = 0.0
    rows = nodes = tokens = 0
    for open_ in live:
        clock, records = open_.request.clock, open_.request.sequence.steps
        # Every request that took part was told the whole time of the pass that all of them shared.
        target, open_.target = max(target, clock.target - open_.target), clock.target
        draft, open_.draft = max(draft, clock.draft - open_.draft), clock.draft
        for record in records[open_.steps :]:
            rows += 1
            nodes += record.drafted
            tokens += len(record.committed.tokens)
        open_.steps = len(records)
    steps.add(rows, nodes, tokens)
    steps.seconds += seconds
    steps.target_seconds += target
    steps.draft_seconds += draft
