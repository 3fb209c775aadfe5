"""What Prometheus may ask for. What vLLM counts has vLLM's name for it; the rest begins with `outrider:`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from outrider.engine.engine import Engine
from outrider.engine.request import Request

LABELS = ("model_name", "engine")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """Counts requests as they end, and reads the engine's own counters when it is asked."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._registry = CollectorRegistry()
        self._labels = (name, "0")
        self._registry.register(_EngineCollector(engine, self._labels))
        self._prompt = self._counter("vllm:prompt_tokens", "Tokens of prompts of requests that have ended.")
        self._ended = self._counter(
            "vllm:request_success", "Samples that have ended, by reason.", "finished_reason"
        )
        self._refused = self._counter(
            "outrider:http_errors", "Answers that were errors, by status.", "status"
        )
        self._first = self._histogram(
            "vllm:time_to_first_token_seconds", "From arrival to the first tokens.", _SECONDS
        )
        self._each = self._histogram(
            "vllm:request_time_per_output_token_seconds", "A token after the first ones.", _TOKEN_SECONDS
        )
        self._queue = self._histogram(
            "vllm:request_queue_time_seconds", "From arrival to the first pass.", _SECONDS
        )
        self._whole = self._histogram(
            "vllm:e2e_request_latency_seconds", "From arrival to the end.", _SECONDS
        )

    def observe(self, request: Request, arrived: float) -> None:
        """Count a sample that has ended; `arrived` in seconds of `time.perf_counter`."""
        result, clock = request.result, request.clock
        if result is None:
            return
        self._ended.labels(*self._labels, result.finish_reason).inc()
        if request.sequence.request == 0:
            self._prompt.labels(*self._labels).inc(result.prompt_tokens)
        if clock.begun is None:
            return
        self._queue.labels(*self._labels).observe(max(clock.begun - arrived, 0.0))
        if clock.first is None:
            return
        self._first.labels(*self._labels).observe(max(clock.first - arrived, 0.0))
        self._whole.labels(*self._labels).observe(max(clock.last - arrived, 0.0))
        if result.timing.decode_tokens > 0:
            self._each.labels(*self._labels).observe(
                result.timing.decode_seconds / result.timing.decode_tokens
            )

    def refused(self, status: int) -> None:
        """Count an answer that is an error."""
        self._refused.labels(*self._labels, str(status)).inc()

    def render(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, help: str, *more: str) -> Counter:
        return Counter(name, help, (*LABELS, *more), registry=self._registry)

    def _histogram(self, name: str, help: str, buckets: Iterable[float]) -> Histogram:
        return Histogram(name, help, LABELS, registry=self._registry, buckets=tuple(buckets))


class _EngineCollector(Collector):
    """The engine's counters, read where they stand."""

    def __init__(self, engine: Engine, labels: tuple[str, ...]) -> None:
        self._engine, self._labels = engine, labels

    def collect(self) -> Iterator[Metric]:
        """Yield what the engine counts, and what it holds now."""
        tally, use = self._engine.tally, self._engine.use
        yield self._counter(
            "vllm:spec_decode_num_drafts", "Drafts: one for a sequence and a pass.", tally.drafts
        )
        yield self._counter("vllm:spec_decode_num_draft_tokens", "Drafted tokens.", tally.drafted)
        yield self._counter(
            "vllm:spec_decode_num_accepted_tokens", "Drafted tokens that were emitted.", tally.accepted
        )
        by_position = CounterMetricFamily(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Drafts of which a token at this depth, from 0, was emitted.",
            labels=(*LABELS, "position"),
        )
        for position, count in enumerate(list(tally.accepted_per_position)):
            by_position.add_metric((*self._labels, str(position)), count)
        yield by_position
        yield self._counter("vllm:generation_tokens", "Emitted tokens.", tally.tokens)
        yield self._gauge("vllm:num_requests_running", "Requests that hold a cache.", use.running)
        yield self._gauge("vllm:num_requests_waiting", "Requests in the queue.", use.waiting)
        if use.cache_limit is not None:
            share = use.cache_bytes / use.cache_limit
            yield self._gauge("vllm:kv_cache_usage_perc", "Share of the cache in use; 1 is all.", share)
        yield self._gauge("outrider:cache_bytes", "Bytes of keys, values and prefixes.", use.cache_bytes)
        yield self._counter("outrider:steps", "Passes in which any sequence emitted.", tally.steps)
        yield self._counter(
            "outrider:undrafted_steps", "Those in which nothing was drafted.", tally.plain_steps
        )
        share = tally.plain_steps / tally.steps if tally.steps else 0.0
        yield self._gauge("outrider:undrafted_step_share", "Their share since the start.", share)
        yield self._gauge("outrider:batch_sequences", "Sequences of the last pass.", tally.last_sequences)
        yield self._gauge(
            "outrider:planned_draft_nodes",
            "Draft nodes that the planner let into the last pass.",
            tally.last_nodes,
        )
        yield self._gauge("outrider:draft_budget", "Most draft nodes of a sequence in a pass.", use.budget)

    def _counter(self, name: str, help: str, value: float) -> Metric:
        family = CounterMetricFamily(name, help, labels=LABELS)
        family.add_metric(self._labels, value)
        return family

    def _gauge(self, name: str, help: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, help, labels=LABELS)
        family.add_metric(self._labels, value)
        return family
