"""A model of the engine under load: its own scheduler and planner, passes timed by a latency curve.

Nothing is run. A step is a pass: who takes part is decided by `share_rows`, what is drafted by `Plan` and
each sequence's `Breaker`, as in the engine; how long it takes, by the curve; what is kept, by chance.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from outrider.bench.traffic import Counts
from outrider.engine.request import Request
from outrider.engine.scheduler import Limits, share_rows
from outrider.planner.breaker import Breaker
from outrider.planner.forecast import Costs, best_length, survival
from outrider.planner.latency import Latency
from outrider.planner.plan import Plan, can_pay


@dataclass(frozen=True, slots=True)
class Drafts:
    """A drafter of chains, as far as the engine's time depends on it."""

    alphas: Sequence[float]
    """Chance that a token is kept where all before it were, by depth; the last holds for all deeper ones."""
    budget: int
    """Most nodes of one sequence."""
    share: float = 1.0
    """Chance that it has a guess at all."""
    model: Latency | None = None
    """The curve of its model, of which it takes a pass for each depth; None where it needs none."""


@dataclass(frozen=True, slots=True)
class System:
    """An engine on a machine."""

    latency: Latency
    limits: Limits
    drafts: Drafts | None = None
    """None for plain decoding."""
    overhead: float = 0.0
    """Milliseconds of a step outside of passes, for each sequence that emits."""


@dataclass(frozen=True, slots=True)
class Job:
    """A request: tokens of its prompt, and tokens that it is answered with."""

    prompt: int
    output: int

    def __post_init__(self) -> None:
        assert self.prompt >= 1
        assert self.output >= 1


@dataclass(slots=True)
class Served:
    """A request on its way; times in milliseconds from the start."""

    number: int
    job: Job
    arrived: float
    pending: int
    cached: int = 0
    emitted: int = 0
    first: tuple[float, int] = (0.0, 0)
    """When the first tokens came, and how many."""
    last: float = 0.0
    breaker: Breaker = field(default_factory=Breaker)
    # What `share_rows` asks of a request besides:
    most_rows: int = 1
    priority: int = 0

    @property
    def sequence(self) -> Served:
        """Itself: here a request and its sequence are one."""
        return self

    @property
    def time_to_first_token(self) -> float:
        """Milliseconds from arrival to the first tokens."""
        return self.first[0] - self.arrived

    @property
    def time_per_token(self) -> float | None:
        """Milliseconds a token after the first ones; None where there were no others."""
        later = self.emitted - self.first[1]
        return (self.last - self.first[0]) / later if later else None


@dataclass(slots=True)
class Simulated(Counts):
    """All requests of a run in the order of their arrival, and what its steps did."""

    served: list[Served] = field(default_factory=list)
    milliseconds: float = 0.0


def simulate(
    system: System,
    jobs: Sequence[Job],
    *,
    clients: int | None = None,
    arrivals: Sequence[float] | None = None,
    seed: int = 0,
) -> Simulated:
    """Return what happens to requests in an engine, from so many `clients` or at given times.

    A client asks again once it is answered, as long as there are jobs. `arrivals` [J]: milliseconds, rising.
    The memory of the engine has no limit, nothing is aborted, and all requests are equally urgent.
    """
    assert (clients is None) != (arrivals is None), "a load is closed or open"
    chance = random.Random(seed)
    run, live, coming, now = Simulated(), list[Served](), 0, 0.0
    while coming < len(jobs) or live:
        while coming < len(jobs):
            if len(live) >= (clients or 0) if arrivals is None else arrivals[coming] > now:
                break
            arrived, job = now if arrivals is None else arrivals[coming], jobs[coming]
            live.append(Served(coming, job, arrived, job.prompt, most_rows=system.limits.read_rows))
            run.served.append(live[-1])
            coming += 1
        if not live:
            assert arrivals is not None
            now = arrivals[coming]
            continue
        now += _step(system, live[: system.limits.running], run, now, chance)
        live = [request for request in live if request.emitted < request.job.output]
    run.milliseconds = now
    return run


def _step(
    system: System, running: Sequence[Served], run: Simulated, now: float, chance: random.Random
) -> float:
    """Advance the running requests by one pass and return its milliseconds."""
    given = _rows(running, system.limits)
    ready = [request for request in running if request.pending <= given[request.number]]
    rows = sum(min(request.pending, given[request.number]) for request in running)
    drafted, prices, drafting = _draft(system, ready, rows - len(ready), chance)
    keys = sum(min(r.pending, given[r.number]) * r.cached for r in running)
    keys += sum(nodes * request.cached for request, nodes in zip(ready, drafted, strict=True))
    took = system.latency.at(rows + sum(drafted), keys) + drafting + system.overhead * len(ready)
    for request in running:
        if request.pending > given[request.number]:
            request.cached += given[request.number]
            request.pending -= given[request.number]
    tokens = 0
    for request, nodes, price in zip(ready, drafted, prices, strict=True):
        kept = 0 if system.drafts is None else _kept(system.drafts.alphas, nodes, chance)
        _emit(request, kept, now + took)
        request.breaker.note(kept, price)
        tokens += 1 + kept
    run.add(len(ready), sum(drafted), tokens)
    return took


def _rows(running: Sequence[Served], limits: Limits) -> dict[int, int]:
    """Return how many rows each request gets, by its number, as `Engine` gives them."""
    readers = [request for request in running if request.pending > 1]
    most = limits.read_rows if len(readers) == len(running) else limits.beside_rows
    # It reads nothing of a request but what `Served` has, too.
    given = share_rows(cast("Sequence[Request]", readers), most)
    return {request.number: given.get(request.number, 1) for request in running}


def _draft(
    system: System, ready: Sequence[Served], reading: int, chance: random.Random
) -> tuple[list[int], list[float], float]:
    """Return the nodes that each sequence drafts, their prices, and the milliseconds of draft passes.

    It goes as in `propose`. Chains of a draft model are as long as pays best for so many sequences; the pass
    then holds of all chains what pays beside the rest of it.
    """
    drafts = system.drafts
    if drafts is None or not ready:
        return [0] * len(ready), [0.0] * len(ready), 0.0
    plan = Plan(system.latency, [request.cached for request in ready], reading)
    longest = drafts.budget
    if drafts.model is not None:
        mean = sum(request.cached for request in ready) // len(ready)
        costs = Costs(system.latency, drafts.model, mean)
        longest = best_length(costs, drafts.alphas, len(ready), drafts.budget).length
    lengths = []
    for request in ready:
        most = min(longest, request.job.output - request.emitted - 1)
        asks = most > 0 and request.breaker.allows() and can_pay(plan.costs(most, context=request.cached))
        lengths.append(most if asks and chance.random() < drafts.share else 0)
    held = [len(nodes) for nodes in plan.share([survival(drafts.alphas, length) for length in lengths])]
    keys = sum(nodes * request.cached for request, nodes in zip(ready, held, strict=True))
    each = plan.price(sum(held), keys) / sum(held) if any(held) else 0.0
    prices = [each * nodes for nodes in held]
    if drafts.model is None:
        return held, prices, 0.0
    busy = sum(1 for length in lengths if length)
    looked = sum(request.cached for request, length in zip(ready, lengths, strict=True) if length)
    return held, prices, max(lengths) * drafts.model.at(busy, looked)


def _kept(alphas: Sequence[float], length: int, chance: random.Random) -> int:
    """Return how many tokens of a chain are kept."""
    for depth in range(length):
        if chance.random() >= alphas[min(depth, len(alphas) - 1)]:
            return depth
    return length


def _emit(request: Served, kept: int, now: float) -> None:
    """Give a request the tokens of a pass."""
    request.cached += request.pending + kept
    request.pending = 1
    if not request.emitted:
        request.first = now, 1 + kept
    request.emitted += 1 + kept
    request.last = now
