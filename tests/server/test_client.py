"""The `openai` client talks to the server as to any other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from served import NAME, Served, serving, tiny_llm, until

openai = pytest.importorskip("openai", reason="needs the extra dev")

KEY = "sk-one"
MESSAGES = [{"role": "user", "content": "abcabc"}]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    """A server that asks for a key."""
    with serving(tiny_llm(), api_keys=(KEY, "sk-two")) as made:
        yield made


@pytest.fixture
def client(guarded: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key=KEY, max_retries=0) as made:
        yield made


def test_it_lists_the_model(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [NAME]
    assert client.models.retrieve(NAME).id == NAME
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_it_completes_and_chats(client: openai.OpenAI, guarded: Served) -> None:
    plain = client.completions.create(model=NAME, prompt="abcabc", temperature=0, max_tokens=20)
    result = guarded.llm.generate("abcabc", max_tokens=20)
    assert plain.choices[0].text == result.text
    assert plain.usage is not None
    assert plain.usage.completion_tokens == result.completion_tokens
    chat = client.chat.completions.create(
        model=NAME, messages=MESSAGES, temperature=0, max_completion_tokens=20, logprobs=True, top_logprobs=2
    )
    result = guarded.llm.generate(MESSAGES, max_tokens=20)
    assert chat.choices[0].message.content == result.text
    assert chat.choices[0].logprobs is not None
    assert chat.choices[0].logprobs.content is not None
    assert len(chat.choices[0].logprobs.content) == result.completion_tokens


def test_it_streams_with_usage_and_gets_the_record_of_speculation(
    client: openai.OpenAI, guarded: Served
) -> None:
    text, used, record = "", None, None
    stream = client.chat.completions.create(
        model=NAME,
        messages=MESSAGES,
        temperature=0.7,
        seed=3,
        max_tokens=20,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"outrider": {"speculation": True}},
    )
    for event in stream:
        used = event.usage or used
        for choice in event.choices:
            text += choice.delta.content or ""
            record = (choice.model_extra or {}).get("outrider") or record
    result = guarded.llm.generate(MESSAGES, temperature=0.7, seed=3, max_tokens=20)
    assert text == result.text
    assert used is not None
    assert used.completion_tokens == result.completion_tokens
    assert record is not None
    assert record["passes"] == result.speculation.passes
    assert record["drafted_per_position"] == list(result.speculation.drafted_per_position)
    assert record["tokens_per_pass"] == result.speculation.mean_accepted_length
    assert record["guarantee"] == "same_tokens"


def test_leaving_a_stream_early_frees_what_it_held(client: openai.OpenAI, guarded: Served) -> None:
    with client.completions.create(
        model=NAME, prompt="abc", max_tokens=400, stream=True, extra_body={"outrider": {"ignore_eos": True}}
    ) as stream:
        next(iter(stream))
    until(lambda: not guarded.engine.busy)


def test_its_errors_are_openais_own(client: openai.OpenAI, guarded: Served) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=NAME, prompt="a", temperature=-1)
    assert refused.value.param == "temperature"
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(model="other", prompt="a")
    assert missing.value.code == "model_not_found"
    for key in ("sk-three", "sk-on", "sk-onee"):
        with (
            openai.OpenAI(base_url=f"{guarded.url}/v1", api_key=key, max_retries=0) as stranger,
            pytest.raises(openai.AuthenticationError) as unknown,
        ):
            stranger.models.list()
        assert unknown.value.code == "invalid_api_key"


def test_every_key_opens_and_only_health_and_readiness_are_open_without(guarded: Served) -> None:
    for key in (KEY, "sk-two"):
        assert guarded.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    for path in ("/v1/models", "/metrics", "/version", "/openapi.json", "/v1/nothing"):
        assert guarded.get(path).status_code == 401
    for path in ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"):
        for headers in (
            {},
            {"Authorization": KEY},
            {"Authorization": f"Basic {KEY}"},
            {"Authorization": "Bearer"},
        ):
            assert guarded.post(path, {}, headers=headers).status_code == 401
    for path in ("/health", "/ready"):
        assert guarded.get(path).status_code == 200
