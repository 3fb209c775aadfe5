"""Full queues, clients that leave, times that are over, servers that end: nothing lost, nothing held."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import httpx
import pytest

from outrider.engine.scheduler import Limits
from served import NAME, Served, events, serving, tiny_llm, until

LONG = {"model": NAME, "prompt": "abc", "max_tokens": 4000, "outrider": {"ignore_eos": True}}


def opened(served: Served, body: dict[str, Any]) -> socket.socket:
    """Return a connection on which a request has been sent and nothing was read yet."""
    host, port = served.url.removeprefix("http://").split(":")
    line = socket.create_connection((host, int(port)))
    sent = json.dumps(body).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    line.sendall(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
    return line


def slow(**options: Any) -> Any:
    """A server whose requests take so long that a test can do something meanwhile."""
    return serving(tiny_llm(context=8192), **options)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_what_it_held(stream: bool) -> None:
    with slow() as served:
        lines = [opened(served, {**LONG, "n": 2, "stream": stream}) for _ in range(3)]
        until(lambda: served.engine.use.running == 6)
        for line in lines:
            line.close()
        until(lambda: not served.engine.busy and not served.site.live)
        assert served.complete(prompt="abc", max_tokens=2)["usage"]["completion_tokens"] == 2


def test_a_full_queue_answers_503_and_says_when_to_come_back() -> None:
    with slow(limits=Limits(running=1, waiting=1)) as served:
        lines = [opened(served, LONG) for _ in range(2)]
        until(lambda: served.engine.use.running == 1 and served.engine.use.waiting == 1)
        answer = served.post("/v1/completions", LONG)
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert answer.json()["error"]["code"] == "overloaded"
        assert served.get("/health").status_code == 200
        for line in lines:
            line.close()
        until(lambda: not served.engine.busy)
        assert served.complete(prompt="abc", max_tokens=1)


def test_of_a_request_for_more_samples_than_the_queue_takes_none_is_run() -> None:
    with slow(limits=Limits(running=1, waiting=1)) as served:
        answer = served.post("/v1/completions", {**LONG, "n": 3})
        assert answer.status_code == 503
        until(lambda: not served.engine.busy)


def test_an_answer_whose_time_is_over_ends_with_what_it_has() -> None:
    with slow() as served:
        answer = served.complete(**{**LONG, "outrider": {"ignore_eos": True, "timeout": 0.4}})
        assert answer["choices"][0]["finish_reason"] == "timeout"
        assert 0 < answer["usage"]["completion_tokens"] < 4000
    with slow(timeout=0.4) as served:
        got = served.stream(**LONG)
        assert got[-1]["choices"][0]["finish_reason"] == "timeout"


def test_a_request_whose_time_is_over_in_the_queue_gets_a_503() -> None:
    with slow(limits=Limits(running=1)) as served:
        line = opened(served, LONG)
        until(lambda: served.engine.use.running == 1)
        answer = served.post("/v1/completions", {**LONG, "outrider": {"timeout": 0.05}})
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "timeout"
        line.close()


def test_a_client_that_reads_nothing_is_not_run_ahead_of_and_is_given_up() -> None:
    with slow(stall_timeout=0.5, send_buffer=4096) as served:
        body = {**LONG, "n": 8, "stream": True, "logprobs": 20, "max_tokens": 8000}
        line = opened(served, body)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        until(lambda: served.engine.use.running == 8)
        until(lambda: not served.engine.busy)
        line.close()


def test_a_server_that_ends_lets_requests_on_their_way_end_and_takes_no_more() -> None:
    with slow() as served:
        found: list[str] = []
        body = {**LONG, "max_tokens": 300, "temperature": 0}

        def ask() -> None:
            found.append(served.post("/v1/completions", {**body, "stream": True}).text)

        thread = threading.Thread(target=ask)
        thread.start()
        until(lambda: served.engine.tally.tokens > 0)
        with httpx.Client(base_url=served.url, trust_env=False, timeout=60) as client:
            assert client.get("/ready").status_code == 200
            served.server.drain()
            ready = client.get("/ready")
            refused = client.post("/v1/completions", json=body)
        assert ready.status_code == refused.status_code == 503
        assert refused.json()["error"]["code"] == "shutting_down"
        assert "Retry-After" in refused.headers
        thread.join(60)
        text = "".join(choice["text"] for event in events(found[0]) for choice in event["choices"])
        assert text == served.llm.generate("abc", max_tokens=300, ignore_eos=True).text


@pytest.mark.parametrize("stream", [False, True])
def test_requests_that_do_not_end_in_time_are_ended_with_an_error(stream: bool) -> None:
    with slow(drain=0.2) as served:
        found: list[httpx.Response] = []
        thread = threading.Thread(
            target=lambda: found.append(served.post("/v1/completions", {**LONG, "stream": stream}))
        )
        thread.start()
        until(lambda: served.engine.tally.tokens > 0)
        served.server.drain()
        thread.join(60)
        if stream:
            assert events(found[0].text)[-1]["error"]["code"] == "shutting_down"
        else:
            assert found[0].status_code == 503
            assert found[0].json()["error"]["code"] == "shutting_down"


def test_options_that_leave_no_token_while_it_runs_are_the_requests_own_error() -> None:
    with serving(tiny_llm()) as served:
        body = {
            "model": NAME,
            "prompt": "ab",
            "max_tokens": 9,
            "outrider": {"allowed_tokens": [1, 2], "no_repeat_ngram_size": 1},
        }
        for stream in (False, True):
            answer = served.post("/v1/completions", {**body, "stream": stream})
            if answer.status_code == 200:  # it had begun
                error = events(answer.text)[-1]["error"]
            else:
                assert answer.status_code == 400
                error = answer.json()["error"]
            assert error["type"] == "invalid_request_error"
        assert served.complete(prompt="abc", max_tokens=1)


def test_a_pass_that_fails_is_a_500_without_its_words_and_the_next_request_is_served() -> None:
    llm = tiny_llm()
    target = llm.model.target
    forward, run = target.forward, target.run  # type: ignore[attr-defined]

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a secret")

    with serving(llm) as served:
        target.forward = target.run = broken  # type: ignore[attr-defined, method-assign]
        answer = served.post("/v1/completions", {**LONG, "max_tokens": 2})
        target.forward, target.run = forward, run  # type: ignore[attr-defined, method-assign]
        assert answer.status_code == 500
        assert answer.json()["error"]["type"] == "server_error"
        assert "secret" not in answer.text
        assert served.complete(prompt="abc", max_tokens=2)["usage"]["completion_tokens"] == 2


def test_samples_of_one_answer_run_side_by_side_to_their_ends() -> None:
    """They were waited for one after the other, and those not yet waited for were paused after 64 tokens."""
    with slow() as served:
        own = {"ignore_eos": True, "drafter": "none"}
        served.complete(prompt="abc", max_tokens=200, n=3, seed=1, outrider=own)
        assert 200 <= served.engine.tally.steps < 220
