"""A model of the engine under load: its own scheduler and planner, passes timed by a latency curve.

Nothing is run. A step is a pass: who takes part is decided by `share_rows`, what is drafted by the engine's
`Planner`; how long it takes, by the curve; what is kept, by the drafter's traces or by chance.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from outrider.bench.drafting import Asking, Draft, Drafting
from outrider.bench.served import Job, Served, Simulated, System
from outrider.engine.request import Request
from outrider.engine.scheduler import Limits, share_rows
from outrider.planner.plan import can_pay
from outrider.planner.planner import Planner


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
    planner = system.planner()
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
        running = live[: system.limits.running]
        now += _step(system, planner, running, run, now, chance)
        live = [request for request in live if request.emitted < request.job.output]
    run.milliseconds = now
    return run


def _step(
    system: System,
    planner: Planner,
    running: Sequence[Served],
    run: Simulated,
    now: float,
    chance: random.Random,
) -> float:
    """Advance the running requests by one pass, as `loop.step` does, and return its milliseconds."""
    given = _rows(running, system.limits)
    ready = [request for request in running if request.pending <= given[request.number]]
    rows = sum(min(request.pending, given[request.number]) for request in running)
    drafted = _draft(system.drafter, planner, ready, rows - len(ready), chance)
    keys = sum(min(r.pending, given[r.number]) * r.cached for r in running)
    keys += sum(len(d.right) * request.cached for request, d in zip(ready, drafted.held, strict=True))
    nodes = sum(len(draft.right) for draft in drafted.held)
    cached = sum(request.cached for request in running if given[request.number])
    in_pass = system.milliseconds(len(ready) + nodes, rows - len(ready), keys, cached)
    took = in_pass + drafted.milliseconds + system.overhead * len(ready)
    for request in running:
        if request.pending > given[request.number]:
            request.cached += given[request.number]
            request.pending -= given[request.number]
    tokens = 0
    for request, draft, price in zip(ready, drafted.held, drafted.prices, strict=True):
        kept = min(sum(draft.right), request.job.output - request.emitted)
        emitted = min(1 + kept, request.job.output - request.emitted)
        _emit(request, emitted, now + took)
        # What would come after the end is not kept.
        right = [here and sum(draft.right[:node]) < kept for node, here in enumerate(draft.right)]
        planner.note(request.breaker, price, kept, draft.chances, right)
        tokens += emitted
    planner.note_asks(drafted.asks, drafted.milliseconds)
    run.add(len(ready), nodes, tokens)
    run.in_passes += in_pass
    return took


def _rows(running: Sequence[Served], limits: Limits) -> dict[int, int]:
    """Return how many rows each request gets, by its number, as `Engine` gives them."""
    readers = [request for request in running if request.pending > 1]
    most = limits.read_rows if len(readers) == len(running) else limits.beside_rows
    # It reads nothing of a request but what `Served` has, too.
    given = share_rows(cast("Sequence[Request]", readers), most)
    return {request.number: given.get(request.number, 1) for request in running}


@dataclass(frozen=True, slots=True)
class _Drafted:
    """What the sequences of a pass draft, in their order."""

    held: list[Draft]
    prices: list[float]
    asks: int = 0
    milliseconds: float = 0.0
    """Time that the drafter took."""


def _draft(
    drafter: Drafting | None,
    planner: Planner,
    ready: Sequence[Served],
    reading: int,
    chance: random.Random,
) -> _Drafted:
    """Draft as `propose` does, for sequences that are ready to emit."""
    held, prices = [Draft((), ()) for _ in ready], [0.0] * len(ready)
    if drafter is None or not ready:
        return _Drafted(held, prices)
    plan = planner.plan([request.cached for request in ready], reading)
    price = planner.price_of_ask(plan)
    asks: dict[int, Asking] = {}
    allowed = planner.allowed([request.breaker for request in ready])
    for index, request in enumerate(ready):
        nodes = min(planner.budget, request.room - 1)
        costs = () if plan is None or nodes <= 0 else plan.costs(nodes, context=request.cached)
        if allowed[index] and nodes > 0 and can_pay(costs, price):
            asks[index] = Asking(request.number, request.emitted, request.cached, nodes, costs)
    made, milliseconds = drafter.answer(list(asks.values()), chance) if asks else ([], 0.0)
    for index, draft in zip(asks, made, strict=True):
        held[index] = draft
    if plan is not None:
        fixed = sum(len(draft.right) for draft in held if draft.chances is None)
        kept = plan.share([draft.chances or () for draft in held], fixed)
        held = [
            draft if draft.chances is None else _part(draft, nodes)
            for draft, nodes in zip(held, kept, strict=True)
        ]
        prices = plan.bill([(len(d.right), r.cached) for d, r in zip(held, ready, strict=True)])
        prices = [each + price * (index in asks) for index, each in enumerate(prices)]
    return _Drafted(held, prices, len(asks), milliseconds)


def _part(draft: Draft, nodes: Sequence[int]) -> Draft:
    """Return a draft of some nodes of another one."""
    assert draft.chances is not None
    return Draft([draft.chances[node] for node in nodes], [draft.right[node] for node in nodes])


def _emit(request: Served, tokens: int, now: float) -> None:
    """Give a request the tokens of a pass."""
    request.cached += request.pending + tokens - 1
    request.pending = 1
    if not request.emitted:
        request.first = now, tokens
    request.emitted += tokens
    request.last = now
