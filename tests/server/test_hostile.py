"""Whatever is sent, the answer is an error in OpenAI's shape, and the server goes on."""

from __future__ import annotations

import json
import random
import socket
from typing import Any

import pytest

from served import NAME, Served, serving, tiny_llm

GOOD: dict[str, dict[str, Any]] = {
    "/v1/completions": {"model": NAME, "prompt": "abc", "max_tokens": 1},
    "/v1/chat/completions": {
        "model": NAME,
        "messages": [{"role": "user", "content": "abc"}],
        "max_tokens": 1,
    },
    "/tokenize": {"model": NAME, "prompt": "abc"},
    "/detokenize": {"model": NAME, "tokens": [1, 2]},
}


def wrong_fields() -> list[tuple[str, str, Any]]:
    """Return (path, field, value) that no field takes."""
    chat, plain = "/v1/chat/completions", "/v1/completions"
    cases: list[tuple[str, str, Any]] = []
    for path in (chat, plain):
        cases += [
            (path, field, value) for field in ("max_tokens", "n") for value in (-1, 1.5, True, "x", [], {})
        ]
        cases += [(path, "n", 10**30), (path, "n", 129), (path, "seed", 2**64), (path, "seed", -(2**63) - 1)]
        cases += [
            (path, field, value)
            for field in ("temperature", "top_p", "presence_penalty", "frequency_penalty")
            for value in (-3, "1", True, [], 10**400)
        ]
        cases += [(path, "top_p", value) for value in (0, 1.01)]
        cases += [(path, "stop", value) for value in (1, [1], "", [""], ["a"] * 33, {"a": 1})]
        cases += [
            (path, "logit_bias", value)
            for value in (
                [],
                {"a": 1},
                {"-1": 1},
                {"1": 101},
                {"1": "1"},
                {"999": 1},
                {" 1": 1},
                {"١": 1},
                {"1_0": 1},
            )
        ]
        cases += [(path, "model", value) for value in (None, 1, "", "other", [NAME])]
        cases += [(path, "stream", value) for value in (1, "true", [])]
        cases += [(path, "stream_options", value) for value in ({"include_usage": True}, {"x": 1}, [], 1)]
        cases += [(path, "user", value) for value in (1, "u" * 257)]
        cases += [(path, "outrider", value) for value in (1, [], {"x": 1}, "x")]
        cases += [
            (path, "outrider", {name: value})
            for name, value in [
                ("drafter", "lm:other"), ("drafter", 1), ("budget", -1), ("budget", 16), ("budget", True),
                ("rule", "nope"), ("rule", "typical"),
                ("guarantee", "same"), ("lossy", True), ("lossy", 1),
                ("timeout", 0), ("timeout", -1),
                ("timeout", "1"), ("top_k", -1), ("top_k", 1.0), ("min_p", 2),
                ("typical_p", 0), ("repetition_penalty", 0), ("no_repeat_ngram_size", -2),
                ("allowed_tokens", []), ("allowed_tokens", [257]), ("banned_tokens", ["a"]),
                ("banned_words", [""]), ("json_schema", "{"),
                ("json_schema", {"type": "nope"}), ("regex", "("),
                ("grammar", "start: nope"), ("choice", []), ("min_tokens", 2), ("stop_token_ids", [-1]),
                ("logprobs_of", "processed"), ("speculation", None), ("regex", "a" * 100_000 + "("),
            ]
        ]  # fmt: skip
        cases += [(path, name, 1) for name in ("modelx", "top_k", "use_beam_search", "__class__", "")]
    cases += [
        (plain, "prompt", value)
        for value in (None, "", [], [[]], [""], 1, [-1], [257], [True], ["a", 1], ["a"] * 129, "a" * 600)
    ]
    cases += [(plain, "best_of", value) for value in (0, -1, 129, "2")]
    cases += [(plain, "logprobs", value) for value in (-1, 21, True, "1")]
    cases += [
        (plain, "suffix", "x"),
        (plain, "max_tokens", 0),
        (plain, "echo", "yes"),
        (plain, "messages", []),
    ]
    user = {"role": "user", "content": "a"}
    for value in [
        None, "", [], {}, [1], ["a"], [[]], [{}], [{"role": "user"}], [{"content": "a"}],
        [{"role": "robot", "content": "a"}], [{"role": "user", "content": 1}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        [{"role": "user", "content": "a", "name": "b"}], [{"role": "user", "content": "a", "x": 1}],
        [{"role": "user", "content": "a", "tool_calls": []}],
        [{"role": "user", "content": "a", "tool_call_id": "1"}],
        [{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "["}}]}],
        [{"role": "user", "content": "a" * 600}],
    ]:  # fmt: skip
        cases.append((chat, "messages", value))
    cases += [(chat, "messages", [user] * 100), (chat, "logprobs", 1), (chat, "top_logprobs", 2)]
    cases += [
        (chat, "response_format", value)
        for value in (1, {}, {"type": "xml"}, {"type": "json_schema"}, {"type": "text", "json_schema": {}})
    ]
    cases += [
        (chat, name, {"a": 1})
        for name in ("audio", "functions", "function_call", "metadata", "prediction", "web_search_options")
    ]
    cases += [(chat, "tools", value) for value in ([], [{}], [{"type": "function"}], "x")]
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    cases += [(chat, "tools", [tool]), (chat, "tool_choice", "required"), (chat, "tool_choice", "auto")]
    cases += [(chat, "parallel_tool_calls", False), (chat, "reasoning_effort", "low"), (chat, "store", True)]
    cases += [(chat, "max_completion_tokens", value) for value in (0, -1, 2)]
    cases += [("/tokenize", "prompt", value) for value in (None, 1, ["a"])]
    cases += [("/tokenize", "messages", [user]), ("/tokenize", "model", "other"), ("/tokenize", "x", 1)]
    cases += [("/detokenize", "tokens", value) for value in (None, "a", [1.5], [-1], [257], [True], [[1]])]
    return cases


RAW: list[bytes] = [
    b"", b" ", b"{", b"}", b"null", b"1", b'"a"', b"[]", b"[1,2]", b"\xff\xfe", b"\x00", b"{}", b"true",
    b'{"model": NaN}', b'{"model": Infinity}', b'{"model": -Infinity}', b'{"temperature": 1e999}',
    b'{"model": "\\ud800"}', b'{"\\udfff": 1}', b'{"model": "tiny", "model": "tiny"}', b"{'model': 'tiny'}",
    b"[" * 100_000, b'{"a":' * 50_000, b"[" * 65 + b"]" * 65, b'{"n": ' + b"9" * 5000 + b"}",
    b'{"model":"tiny","prompt":"\xed\xa0\x80"}', b'{"model":"tiny","prompt":"a"} {}', b"\xef\xbb\xbf{}",
    b'{"model":"tiny","prompt":"\\ud800","max_tokens":1}',
    b'{"model":"tiny","prompt":"a","outrider":{"json_schema":{"const":"\\udc00"}}}',
    b'{"model":"tiny","prompt":"a","outrider":{"json_schema":' + b'{"not":' * 60 + b"1" + b"}" * 62,
    b'{"model":"tiny","prompt":"a","temperature":-0.1}', b'{"model":"tiny"}', b'{"prompt":1}',
]  # fmt: skip


def is_an_error(answer: Any) -> bool:
    """Tell whether an answer is a refusal in OpenAI's shape."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert len(answer.content) < 2000
    return 400 <= int(answer.status_code) < 500 and error["type"] == "invalid_request_error"


def still_serves(served: Served) -> None:
    assert served.complete(prompt="abc", max_tokens=4, temperature=0)["choices"][0]["finish_reason"]


def test_more_than_200_bodies_with_a_wrong_field_are_refused_and_say_which(served: Served) -> None:
    cases = wrong_fields()
    assert len(cases) > 200
    for path, field, value in cases:
        body = {**GOOD[path], field: value}
        sent = json.dumps(body).encode()
        answer = served.post(path, content=sent, headers={"Content-Type": "application/json"})
        assert is_an_error(answer), (path, field, value, answer.text)
    still_serves(served)


@pytest.mark.parametrize("path", GOOD)
def test_bytes_that_are_no_body_are_refused(served: Served, path: str) -> None:
    for raw in RAW:
        answer = served.post(path, content=raw, headers={"Content-Type": "application/json"})
        assert is_an_error(answer), (path, raw[:60], answer.text)
    still_serves(served)


def test_random_damage_to_good_bodies_never_ends_in_an_error_of_the_server(served: Served) -> None:
    chance = random.Random(1)
    headers = {"Content-Type": "application/json"}
    for _ in range(150):
        path = chance.choice(list(GOOD))
        raw = bytearray(json.dumps(GOOD[path]).encode())
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(raw))
            match chance.randrange(3):
                case 0:
                    raw[at] = chance.randrange(256)
                case 1:
                    del raw[at]
                case 2:
                    raw[at:at] = raw[chance.randrange(len(raw)) :][:5]
        answer = served.post(path, content=bytes(raw), headers=headers)
        assert answer.status_code == 200 or is_an_error(answer), (bytes(raw), answer.text)
    still_serves(served)


def test_a_prompt_that_is_too_long_says_so_in_openais_words(served: Served) -> None:
    answer = served.post("/v1/completions", {"model": NAME, "prompt": "a" * 512})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"


def test_an_unknown_field_is_named_with_the_one_that_was_meant(served: Served) -> None:
    error = served.post("/v1/completions", {**GOOD["/v1/completions"], "max_token": 3}).json()["error"]
    assert error["param"] == "max_token"
    assert "max_tokens" in error["message"]


def test_a_body_larger_than_allowed_gets_a_413_also_without_its_length(served: Served) -> None:
    with serving(tiny_llm(), most_body=1000) as small:
        headers = {"Content-Type": "application/json"}
        large = json.dumps({**GOOD["/v1/completions"], "prompt": "a" * 2_000_000}).encode()
        answer = small.post("/v1/completions", content=large, headers=headers)
        assert answer.status_code == 413
        assert is_an_error(answer)
        pieces = (large[at : at + 1000] for at in range(0, len(large), 1000))
        assert small.post("/v1/completions", content=pieces, headers=headers).status_code == 413
        still_serves(small)


def test_a_body_that_does_not_arrive_gets_a_408() -> None:
    with serving(tiny_llm(), body_timeout=0.3) as slow:
        host, port = slow.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as line:
            line.sendall(
                b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: 100\r\n\r\n{"
            )
            line.settimeout(60)
            assert b" 408 " in line.recv(1000)
        still_serves(slow)


def test_other_types_methods_and_paths_are_refused_in_the_same_shape(served: Served) -> None:
    body = json.dumps(GOOD["/v1/completions"]).encode()
    for headers in (
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ):
        answer = served.post("/v1/completions", content=body, headers=headers)
        assert answer.status_code == 415
        assert is_an_error(answer)
    for path, status in (
        ("/v1/completions", 405),
        ("/v1/nothing", 404),
        ("/nothing", 404),
        ("/v1/models/x/y", 404),
    ):
        answer = served.get(path)
        assert answer.status_code == status
        assert is_an_error(answer)


def test_garbage_on_the_line_and_lines_that_close_leave_the_server_up(served: Served) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    for garbage in (
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"A" * 200_000,
        b"POST /v1/completions",
    ):
        with socket.create_connection((host, int(port))) as line:
            line.sendall(garbage)
    still_serves(served)
