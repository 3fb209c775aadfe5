"""Several samples of one prompt: requests that share a seed and are told apart by their number."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

from outrider.engine.engine import Engine
from outrider.engine.request import Request
from outrider.engine.result import Result
from outrider.sampling.constraint import Constraint
from outrider.sampling.params import SamplingParams


def submit_samples(
    engine: Engine,
    prompt: Sequence[int],
    params: SamplingParams,
    *,
    constraint: Callable[[], Constraint] | None = None,
) -> list[Request]:
    """Submit as many requests as `n` or `best_of` ask for, in order of their number.

    All have one seed (drawn here where none is given), so sample i is the same text whatever n is. Each gets
    a constraint of its own. Errors as from `Engine.submit`.
    """
    seeded = replace(params, seed=secrets.randbits(64)) if params.seed is None else params
    return [
        engine.submit(prompt, seeded, sample=number, constraint=constraint() if constraint else None)
        for number in range(params.samples)
    ]


def gather(requests: Sequence[Request], params: SamplingParams) -> Result:
    """Return the result of ended requests of one prompt: the first of the `n` wanted, the others inside it.

    With `best_of` those whose tokens had the highest mean logprob come first, under the laws that they were
    drawn from (all options applied); the lower number among equals. Raises the error that ended one of them.
    """
    failed = next((request.error for request in requests if request.error is not None), None)
    if failed is not None:
        raise failed
    results = [request.result for request in requests]
    ended = [result for result in results if result is not None]
    assert len(ended) == len(requests), "every request has ended"
    if params.ranks:
        ended.sort(key=_rank)
    first, *others = ended[: params.n]
    return replace(first, others=tuple(others))


def _rank(result: Result) -> tuple[float, int]:
    unlikely = float("inf") if result.mean_logprob is None else -result.mean_logprob
    return unlikely, result.sample
