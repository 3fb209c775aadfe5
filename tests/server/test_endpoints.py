"""The small endpoints, the per-request choices of speculation, the metrics, the log and the page."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.server import log
from served import NAME, Served, serving, tiny_llm

BODY = {"prompt": "abcabcabc", "temperature": 0, "max_tokens": 40}
MESSAGES = [{"role": "user", "content": "hi <|end|>"}]


def metrics(served: Served) -> dict[str, float]:
    """Return all samples by their names, with what labels they have beside the model's."""
    found = {}
    for line in served.get("/metrics").text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[name.replace(',model_name="tiny"', "").replace('engine="0"', "")] = float(value)
    return found


def test_tokens_and_texts_are_those_of_the_model(served: Served) -> None:
    found = served.post("/tokenize", {"prompt": "abc \u00e9"}).json()
    assert found["tokens"] == served.llm.encode("abc \u00e9")
    assert (found["count"], found["max_model_len"]) == (6, 512)
    assert served.post("/detokenize", {"tokens": found["tokens"]}).json() == {"prompt": "abc \u00e9"}
    chat = served.post("/tokenize", {"messages": MESSAGES}).json()["tokens"]
    assert chat == served.llm.encode(MESSAGES)
    assert 256 not in chat  # what a message says is text


def test_health_readiness_version_and_description_are_told(served: Served) -> None:
    assert served.get("/health").json() == {"status": "ok"}
    assert served.get("/ready").json() == {"status": "ready"}
    assert served.get("/version").json() == {"version": "0"}
    paths = served.get("/openapi.json").json()["paths"]
    assert {"/v1/completions", "/v1/chat/completions", "/v1/models", "/metrics"} <= set(paths)


def test_every_reference_of_the_description_leads_somewhere(served: Served) -> None:
    document = served.get("/openapi.json").json()

    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            for inner in value.values():
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    found = set(references(document))
    assert found
    for reference in found:
        at = document
        for step in reference.removeprefix("#/").split("/"):
            at = at[step]


def test_a_request_may_choose_plain_decoding_a_budget_a_rule_or_a_guarantee(served: Served) -> None:
    def ask(temperature: float = 0, **own: Any) -> tuple[str, dict[str, Any]]:
        body = {**BODY, "temperature": temperature, "seed": 5, "outrider": {"speculation": True, **own}}
        choice = served.complete(**body)["choices"][0]
        return choice["text"], choice["outrider"]

    drafted, record = ask()
    assert (record["drafter"], record["rule"], record["guarantee"]) == ("suffix", "greedy", "same_tokens")
    assert record["drafted"] > 0
    for own in ({"drafter": "none"}, {"budget": 0}):
        text, record = ask(**own)
        assert text == drafted
        assert (record["drafter"], record["drafted"], record["passes"]) == ("none", 0, record["tokens"])
    text, record = ask(budget=1, drafter="suffix")
    assert text == drafted
    assert len(record["drafted_per_position"]) == 1
    assert ask(0.8, rule="rejection")[1]["guarantee"] == "same_law"
    assert ask(0.8, rule="typical", lossy=True)[1]["guarantee"] == "lossy"
    assert ask(0.8, guarantee="same_tokens")[1]["rule"] == "coupled"


def test_no_record_is_sent_where_none_was_asked_for(served: Served) -> None:
    assert "outrider" not in served.complete(**BODY)["choices"][0]


def test_counters_of_speculation_have_vllms_names_and_add_up_to_the_records() -> None:
    with serving(tiny_llm()) as served:
        records = []
        for seed in range(4):
            body = {**BODY, "temperature": 0.3 * seed, "seed": seed, "outrider": {"speculation": True}}
            records.append(served.complete(**body)["choices"][0]["outrider"])
        found = metrics(served)
        prefix = "vllm:spec_decode_num_"
        assert found[f"{prefix}draft_tokens_total{{}}"] == sum(record["drafted"] for record in records) > 0
        assert (
            found[f"{prefix}accepted_tokens_total{{}}"] == sum(record["accepted"] for record in records) > 0
        )
        drafts = sum(
            record["drafted_per_position"][0] for record in records if record["drafted_per_position"]
        )
        assert found[f"{prefix}drafts_total{{}}"] == drafts
        deepest = max(len(record["accepted_per_position"]) for record in records)
        for position in range(deepest):
            kept = sum(sum(record["accepted_per_position"][position : position + 1]) for record in records)
            name = f'{prefix}accepted_tokens_per_pos_total{{,position="{position}"}}'
            assert found.get(name, 0.0) == kept
        tokens = sum(record["tokens"] for record in records)
        assert found["vllm:generation_tokens_total{}"] == tokens
        # The token that a pass adds to what it keeps is counted as neither drafted nor accepted.
        passes = sum(record["passes"] for record in records)
        assert found["outrider:steps_total{}"] == passes
        assert tokens <= sum(record["accepted"] for record in records) + passes
        assert found["outrider:undrafted_steps_total{}"] == passes - drafts
        assert found["outrider:undrafted_step_share{}"] == pytest.approx((passes - drafts) / passes)


def test_times_and_ends_of_requests_are_counted() -> None:
    with serving(tiny_llm()) as served:
        served.complete(**BODY, n=3)
        served.stream(**BODY)
        served.post("/v1/completions", {"model": NAME})
        found = metrics(served)
        for name in (
            "time_to_first_token_seconds",
            "request_queue_time_seconds",
            "e2e_request_latency_seconds",
        ):
            assert found[f"vllm:{name}_count{{}}"] == 4
        assert found["vllm:request_time_per_output_token_seconds_count{}"] == 4
        assert found["vllm:prompt_tokens_total{}"] == 2 * len(str(BODY["prompt"]))
        assert found['vllm:request_success_total{,finished_reason="length"}'] == 4
        assert found['outrider:http_errors_total{,status="400"}'] == 1
        assert found["vllm:num_requests_running{}"] == found["vllm:num_requests_waiting{}"] == 0


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the server logs while a test runs."""
    out = io.StringIO()
    loggers = [logging.getLogger(name) for name in (log.LOGGER, "uvicorn.error")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    log.set_up(out)
    yield out
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def logged(lines: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def test_a_request_is_one_line_with_its_id_and_without_anyones_text(lines: io.StringIO) -> None:
    with serving(tiny_llm()) as served:
        secret = "wxyzwxyz"
        answer = served.post(
            "/v1/completions", {"model": NAME, **BODY, "prompt": secret}, headers={"X-Request-Id": "mine-1"}
        )
        assert answer.headers["X-Request-Id"] == "mine-1"
        served.post(
            "/v1/chat/completions", {"model": NAME, "messages": [{"role": "user", "content": secret, "x": 1}]}
        )
        served.post("/v1/completions", content=secret.encode(), headers={"Content-Type": "application/json"})
        odd = served.get("/v1/models", headers={"X-Request-Id": "a b"})
        assert odd.headers["X-Request-Id"] != "a b"
        served.get("/health")
    found = [line for line in logged(lines) if line["event"] == "request"]
    assert [line["status"] for line in found] == [200, 400, 400, 200]
    assert found[0]["id"] == "mine-1"
    assert found[0]["completion"] == answer.json()["id"]
    assert found[0]["completion_tokens"] == 40
    assert found[0]["finish"] == ["length"]
    assert secret not in lines.getvalue()
    assert answer.json()["choices"][0]["text"] not in lines.getvalue()


def test_texts_are_logged_where_that_is_asked_for(lines: io.StringIO) -> None:
    with serving(tiny_llm(), log_text=True) as served:
        text = served.complete(**BODY)["choices"][0]["text"]
    line = next(line for line in logged(lines) if line["event"] == "request")
    assert (line["prompts"], line["texts"]) == ([BODY["prompt"]], [text])


def test_a_page_is_served_where_there_is_one_and_needs_no_key(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>hello</p>")
    (tmp_path / "page.js").write_text("1")
    with serving(tiny_llm(), page=tmp_path, api_keys=("k",)) as served:
        assert served.get("/").text == "<p>hello</p>"
        assert served.get("/page.js").status_code == 200
        assert served.get("/%2e%2e/secret").status_code == 404
        assert served.get("/v1/models").status_code == 401
