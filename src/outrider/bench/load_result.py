"""The result document of a load benchmark: each drafter under each load, beside plain decoding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

import numpy as np

from outrider.bench.contestants import BASELINE
from outrider.bench.load import Measured
from outrider.bench.load_told import told_of_drafts
from outrider.bench.stats import bootstrap_median
from outrider.bench.suites import Suite
from outrider.bench.traffic import Load
from outrider.sampling.params import SamplingParams

LOAD_SCHEMA = {"name": "outrider.bench.load", "version": 1}
PERCENTILES = (50, 90, 99)


def load_document(
    measured: Sequence[Measured],
    suite: Suite,
    params: SamplingParams,
    provenance: dict[str, Any],
    *,
    running: int,
    least: int | None = None,
) -> dict[str, Any]:
    """Return the document of one benchmark: a row for each load and drafter, then every run by itself.

    `running`: most requests in one pass; `least`: as `run_loads` was given it.
    """
    loads = list(dict.fromkeys(m.load for m in measured))
    names = list(dict.fromkeys(m.contestant for m in measured))
    plain = reference(measured)
    known = {m.prompts[i].prompt.id for m in measured for i in range(len(m.prompts))}
    return {
        "schema": LOAD_SCHEMA,
        "results": [
            summarize([m for m in measured if m.load == load and m.contestant == name], measured, plain)
            for load in loads
            for name in names
        ],
        "runs": [_run_row(m) for m in measured],
        "suite": {
            "name": suite.name,
            "prompts": len(suite.prompts),
            "left_out": [prompt.id for prompt in suite.prompts if prompt.id not in known],
        },
        "running": running,
        "least_tokens": least,
        "prefix_store": False,
        "sampling": asdict(params),
        "provenance": provenance,
    }


Asked = tuple[str, int | None]
"""A prompt's id, and how many tokens it may be answered with."""


def reference(measured: Sequence[Measured]) -> dict[Asked, tuple[int, ...]]:
    """Return plain decoding's first answer to each prompt of each limit.

    Every other answer is compared with it, plain decoding's own under other loads too.
    """
    found: dict[Asked, tuple[int, ...]] = {}
    for m in measured:
        if m.contestant == BASELINE:
            for prompt, answer in m.answers:
                found.setdefault((prompt.prompt.id, prompt.most), answer.result.token_ids)
    return found


def summarize(
    own: Sequence[Measured], measured: Sequence[Measured], plain: dict[Asked, tuple[int, ...]]
) -> dict[str, Any]:
    """Return the row of one contestant under one load from its rounds, `own`.

    `measured` holds plain decoding's rounds too, `plain` its texts. Times are seconds, as percentiles over
    all requests (or gaps) of all rounds. Ratios are above 1 where the contestant is faster: of throughputs
    round by round, and of times per token request by request, each the median over its rounds.
    """
    load = own[0].load
    rounds = {m.round: m for m in measured if m.load == load and m.contestant == BASELINE}
    answers = [pair for m in own for pair in m.answers]
    results = [answer.result for _, answer in answers]
    steps = [m.run.steps for m in own]
    emitting, seconds = sum(s.emitting for s in steps), sum(s.seconds for s in steps)
    tokens, rows = sum(s.tokens for s in steps), sum(s.rows for s in steps)
    throughput = bootstrap_median(
        [m.run.tokens_per_second / rounds[m.round].run.tokens_per_second for m in own]
    )
    per_token = bootstrap_median(_ratios_per_token(own, rounds))
    return {
        "drafter": own[0].contestant,
        **_load_fields(load),
        "rounds": len(own),
        "requests": len(own[0].prompts),
        "tokens_per_second": sum(r.completion_tokens for r in results) / sum(m.run.seconds for m in own),
        "time_to_first_token": spread(answer.time_to_first_token for _, answer in answers),
        "time_per_token": spread(answer.time_per_token for _, answer in answers),
        "gap": spread(gap for _, answer in answers for gap in answer.gaps),
        "queue": spread(answer.begun - answer.arrived for _, answer in answers),
        "sequences_per_step": rows / emitting,
        "mean_accepted_length": tokens / rows,
        "tokens_per_step": tokens / emitting,
        "nodes_per_step": sum(s.nodes for s in steps) / emitting,
        "undrafted_steps": sum(s.undrafted for s in steps) / emitting,
        "pass_ms": 1000 * sum(s.target_seconds for s in steps) / sum(s.steps for s in steps),
        "outside_passes": 1 - sum(s.target_seconds for s in steps) / seconds,
        "drafting": sum(s.draft_seconds for s in steps) / seconds,
        "identical_to_plain": sum(a.result.token_ids == plain[p.prompt.id, p.most] for p, a in answers)
        / len(answers),
        "throughput_over_plain": asdict(throughput) if throughput else None,
        "speed_over_plain": asdict(per_token) if per_token else None,
        "rule": results[0].speculation.rule,
        "guarantee": str(results[0].speculation.guarantee),
        **told_of_drafts(own),
    }


def spread(values: Iterable[float | None]) -> dict[str, float | None]:
    """Return mean and percentiles of what values there are; None for each where there are none."""
    found = [value for value in values if value is not None]
    if not found:
        return dict.fromkeys(["mean", *(f"p{p}" for p in PERCENTILES)])
    points = np.percentile(found, PERCENTILES)
    named = {f"p{p}": float(point) for p, point in zip(PERCENTILES, points, strict=True)}
    return {"mean": float(np.mean(found)), **named}


def _ratios_per_token(own: Sequence[Measured], rounds: dict[int, Measured]) -> list[float]:
    """Return for each request plain decoding's time per token over its own, the median of the rounds."""
    ratios = []
    for index in range(len(own[0].prompts)):
        pairs = [
            (rounds[m.round].run.answers[index].time_per_token, m.run.answers[index].time_per_token)
            for m in own
        ]
        found = [theirs / mine for theirs, mine in pairs if theirs and mine]
        if found:
            ratios.append(median(found))
    return ratios


def _load_fields(load: Load) -> dict[str, Any]:
    return {"clients": load.clients, "rate": load.rate}


def _run_row(m: Measured) -> dict[str, Any]:
    steps = asdict(m.run.steps)
    steps["step_seconds"] = steps.pop("seconds")
    return {
        "drafter": m.contestant,
        **_load_fields(m.load),
        "round": m.round,
        "requests": len(m.prompts),
        "seconds": m.run.seconds,
        "tokens_per_second": m.run.tokens_per_second,
        **steps,
    }
