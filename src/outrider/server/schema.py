"""What clients may send: every field of it, and nothing else.

A field whose type is `None` is one of OpenAI's that this server does not honour: null is as good as leaving
it out, anything else is refused.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_PROMPTS = 128
"""Most prompts of one request."""
MOST_STOPS = 32
"""Most stop strings of one request."""


class Strict(BaseModel):
    """Refuses unknown fields, numbers that are none, and values of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class StreamOptions(Strict):
    """What a stream also carries."""

    include_usage: bool | None = None
    """One more chunk at the end, with the usage of the whole request."""
    include_obfuscation: Literal[False] | None = None


class OutriderOptions(Strict):
    """What this server can do beyond OpenAI's fields, under the name `outrider`."""

    speculation: bool = False
    """Put a record of its speculation beside every choice."""
    trail: bool = False
    """Tell of every token of a stream where it came from."""
    trees: bool = False
    """Tell of every pass of a stream what it drafted, and what was kept."""
    drafter: str | None = None
    """"none" for plain decoding, or the name of the server's own drafter."""
    budget: int | None = None
    """Most draft nodes of one pass, up to the server's own; 0 is plain decoding."""
    rule: str | None = None
    guarantee: str | None = None
    """"same_tokens" or "same_law"."""
    lossy: bool = False
    """Consent to a rule that changes the law of the text."""
    timeout: float | None = None
    """Seconds after which the answer ends with what it has."""
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    allowed_tokens: list[int] | None = None
    banned_tokens: list[int] | None = None
    banned_words: str | list[str] | None = None
    json_schema: dict[str, Any] | str | None = None
    json_object: bool | None = None
    regex: str | None = None
    grammar: str | None = None
    choice: list[str] | None = None
    logprobs_of: str | None = None
    min_tokens: int | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None


class Common(Strict):
    """What both kinds of completions share."""

    model: str
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    max_tokens: int | None = None
    n: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = Field(default=None, max_length=256)
    """Kept apart from others in what drafters learn."""
    outrider: OutriderOptions = Field(default_factory=OutriderOptions)


class CompletionRequest(Common):
    """The body of `/v1/completions`."""

    prompt: str | list[str] | list[int] | list[list[int]]
    best_of: int | None = None
    echo: bool | None = None
    logprobs: int | None = None
    suffix: None = None


class Function(Strict):
    """A function that a model may call."""

    name: str = Field(min_length=1, max_length=64)
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: Literal[False] | None = None


class Tool(Strict):
    """A tool that a model may call."""

    type: Literal["function"]
    function: Function


class CalledFunction(Strict):
    """Which function an earlier answer called, and with what."""

    name: str
    arguments: str


class ToolCall(Strict):
    """A call in an earlier answer."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class TextPart(Strict):
    """A piece of a message; pieces are put together with line breaks between them."""

    type: Literal["text"]
    text: str


class Message(Strict):
    """One turn of a conversation. The role `developer` is what templates call `system`."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: None = None
    refusal: None = None
    audio: None = None
    function_call: None = None
    annotations: None = None


class JsonSchema(Strict):
    """A schema that the answer keeps, whatever `strict` says."""

    name: str
    schema_: dict[str, Any] = Field(alias="schema")
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(Strict):
    """What the answer has to be."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class ChatRequest(Common):
    """The body of `/v1/chat/completions`."""

    messages: list[Message] = Field(min_length=1)
    logprobs: bool | None = None
    top_logprobs: int | None = None
    max_completion_tokens: int | None = None
    response_format: ResponseFormat | None = None
    tools: list[Tool] | None = Field(default=None, min_length=1)
    tool_choice: Literal["none", "auto"] | None = None
    parallel_tool_calls: Literal[True] | None = None
    modalities: list[Literal["text"]] | None = None
    service_tier: Literal["auto", "default"] | None = None
    store: Literal[False] | None = None
    audio: None = None
    function_call: None = None
    functions: None = None
    metadata: None = None
    moderation: None = None
    prediction: None = None
    prompt_cache_key: None = None
    prompt_cache_options: None = None
    prompt_cache_retention: None = None
    reasoning_effort: None = None
    safety_identifier: None = None
    verbosity: None = None
    web_search_options: None = None


class TokenizeRequest(Strict):
    """The body of `/tokenize`: a prompt, or the messages of a chat."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = Field(default=None, min_length=1)
    tools: list[Tool] | None = Field(default=None, min_length=1)
    add_special_tokens: bool = True
    """What the model expects around a prompt; the template alone says what stands around messages."""


class DetokenizeRequest(Strict):
    """The body of `/detokenize`."""

    model: str | None = None
    tokens: list[int]
