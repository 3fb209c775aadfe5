"""From a client's fields to what the engine runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outrider.engine.intake import RequestOptions
from outrider.errors import PromptError
from outrider.llm import LLM
from outrider.loop.accept.table import RuleChoice
from outrider.sampling.params import MOST_SAMPLES, OUTPUT_GRAMMARS, SamplingParams
from outrider.server.conversation import template_messages, template_tools
from outrider.server.errors import ApiError, invalid
from outrider.server.schema import (
    MOST_PROMPTS,
    MOST_STOPS,
    ChatRequest,
    Common,
    CompletionRequest,
    OutriderOptions,
)
from outrider.server.settings import Settings
from outrider.server.tools import check_format
from outrider.types import Trace

DEFAULT_TOKENS = 16
"""`max_tokens` of a completion that gives none, as OpenAI has it. A chat goes on until the context ends."""
_OWN = frozenset(SamplingParams.__dataclass_fields__) & frozenset(OutriderOptions.model_fields)
"""Sampling options that stand under `outrider`."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one HTTP request asks of the engine."""

    prompts: list[list[int]]
    params: SamplingParams
    options: RequestOptions
    chat: bool
    stream: bool
    usage_chunk: bool
    speculation: bool
    echoes: list[str] | None = None
    """The texts of the prompts, where the answer begins with them."""
    silent: bool = False
    """`max_tokens` is 0: the one token that is run is left out."""
    calls: bool = False
    """The answer may call tools."""
    trail: bool = False
    """Chunks tell where each token came from."""
    trees: bool = False
    """Chunks tell what each pass drafted."""


def completion_job(body: CompletionRequest, llm: LLM, settings: Settings, tenant: str) -> Job:
    """Return the job of a completion; ApiError or OutriderError for what cannot be run."""
    prompts = _prompts(body.prompt, llm)
    echo, silent = bool(body.echo), body.max_tokens == 0
    if silent and not echo:
        raise invalid("max_tokens", "max_tokens=0 goes with echo alone; give a number >= 1")
    given: dict[str, Any] = {"logprobs": body.logprobs, "best_of": body.best_of}
    given["max_tokens"] = 1 if silent else DEFAULT_TOKENS if body.max_tokens is None else body.max_tokens
    if echo and body.logprobs is not None:
        given["prompt_logprobs"] = body.logprobs
    params = _params(body, given)
    if body.stream and params.ranks:
        raise invalid(
            "best_of", "best_of chooses at the end, so it cannot be streamed; leave out stream or best_of"
        )
    echoes = None
    if echo:
        texts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
        echoes = [
            text if isinstance(text, str) else llm.model.tokenizer.decode(ids)
            for text, ids in zip(texts if _is_texts(texts) else prompts, prompts, strict=True)
        ]
    return _job(body, params, prompts, llm, settings, tenant, echoes=echoes, silent=silent)


def chat_job(body: ChatRequest, llm: LLM, settings: Settings, tenant: str) -> Job:
    """Return the job of a chat completion; ApiError or OutriderError for what cannot be run."""
    most, named = body.max_tokens, "max_tokens"
    if body.max_completion_tokens is not None:
        if most not in (None, body.max_completion_tokens):
            raise invalid("max_tokens", "max_tokens and max_completion_tokens differ; give one of them")
        most, named = body.max_completion_tokens, "max_completion_tokens"
    if most is not None and most < 1:
        raise invalid(named, f"{named}={most} is not allowed; give a number >= 1")
    given: dict[str, Any] = {"max_tokens": most, **_format(body)}
    if body.top_logprobs is not None and not body.logprobs:
        raise invalid("top_logprobs", "top_logprobs needs logprobs=true")
    if body.logprobs:
        given["logprobs"] = body.top_logprobs or 0
    params = _params(body, given, unlimited=most is None)
    if body.tool_choice == "auto" and body.tools is None:
        raise invalid("tool_choice", "tool_choice needs tools")
    calls = body.tools is not None and body.tool_choice != "none"
    if calls:
        check_format(llm.model.tokenizer.chat_template)
        if params.output_grammar is not None:
            raise invalid(
                "tools",
                f"{params.output_grammar[0]} leaves no room for calls; set tool_choice to 'none', or leave "
                "one of them out",
            )
    ids = llm.model.tokenizer.chat(
        template_messages(body.messages), template_tools(body.tools) if calls else None
    )
    return _job(body, params, [ids], llm, settings, tenant, chat=True, calls=calls)


def check_model(name: str | None, settings: Settings) -> None:
    """Raise ApiError for a model that this server does not have."""
    if name is not None and name != settings.name:
        message = f"this server has no model of that name; it has {settings.name!r}"
        raise ApiError(404, message, param="model", code="model_not_found")


def _job(
    body: Common,
    params: SamplingParams,
    prompts: list[list[int]],
    llm: LLM,
    settings: Settings,
    tenant: str,
    *,
    chat: bool = False,
    echoes: list[str] | None = None,
    silent: bool = False,
    calls: bool = False,
) -> Job:
    if len(prompts) * params.samples > MOST_SAMPLES:
        message = f"prompts times samples come to more than {MOST_SAMPLES}; send several requests"
        raise invalid("n", message)
    if body.stream_options is not None and not body.stream:
        raise invalid("stream_options", "stream_options needs stream=true")
    own = body.outrider
    traced = next((name for name in ("trail", "trees") if getattr(own, name)), None)
    if traced and not body.stream:
        raise invalid(f"outrider.{traced}", f"{traced} goes with a stream; set stream=true")
    return Job(
        prompts,
        params,
        _options(body, llm, settings, tenant),
        chat=chat,
        stream=bool(body.stream),
        usage_chunk=body.stream_options is not None and bool(body.stream_options.include_usage),
        speculation=own.speculation,
        trail=own.trail,
        trees=own.trees,
        echoes=echoes,
        silent=silent,
        calls=calls,
    )


def _options(body: Common, llm: LLM, settings: Settings, tenant: str) -> RequestOptions:
    """Return what is said of the requests beside their sampling."""
    own = body.outrider
    budget = own.budget
    if own.drafter == "none":
        if budget:
            raise invalid("outrider.budget", "the drafter 'none' has no budget")
        budget = 0
    elif own.drafter not in (None, llm.drafter_name):
        message = f"this server drafts with {llm.drafter_name!r}; give that, or 'none' for plain decoding"
        raise ApiError(400, message, param="outrider.drafter", code="unsupported")
    timeout = settings.timeout if own.timeout is None else own.timeout
    options: RequestOptions = {
        "timeout": min(timeout, settings.timeout),
        "tenant": f"{tenant}/{body.user or ''}",
        "budget": budget,
        "trace": Trace.TREES if own.trees else Trace.TOKENS if own.trail else None,
    }
    if own.rule is not None or own.guarantee is not None:
        options["rule"] = RuleChoice(own.rule or "auto", own.guarantee, own.lossy)
    elif own.lossy:
        message = "lossy is a consent to a rule that changes the text's law; name the rule, too"
        raise invalid("outrider.lossy", message)
    return options


def _params(body: Common, given: dict[str, Any], *, unlimited: bool = False) -> SamplingParams:
    """Return sampling options: OpenAI's defaults, what is given, and what stands under `outrider`."""
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    if len(stops) > MOST_STOPS:
        raise invalid("stop", f"more than {MOST_STOPS} stop strings")
    shared = {
        name: getattr(body, name) for name in ("frequency_penalty", "presence_penalty", "n", "seed", "top_p")
    }
    own = {name: getattr(body.outrider, name) for name in _OWN}
    chosen = [name for name in OUTPUT_GRAMMARS if own.get(name) or given.get(name)]
    twice = [name for name in OUTPUT_GRAMMARS if own.get(name) and given.get(name)]
    if len(chosen) > 1 or twice:
        message = "the output's form is given twice; keep one of response_format and those under outrider"
        raise invalid("outrider", message)
    settled: dict[str, Any] = {
        "temperature": 1.0 if body.temperature is None else body.temperature,
        "stop": tuple(stops),
    }
    settled["logit_bias"] = _biases(body.logit_bias)
    settled |= {name: value for name, value in {**shared, **own, **given}.items() if value is not None}
    if unlimited:
        settled["max_tokens"] = None
    return SamplingParams(**settled)


def _format(body: ChatRequest) -> dict[str, Any]:
    """Return what `response_format` says as sampling options."""
    wanted = body.response_format
    if wanted is None:
        return {}
    if (wanted.type == "json_schema") != (wanted.json_schema is not None):
        message = "json_schema stands with the type 'json_schema', and only there"
        raise invalid("response_format.json_schema", message)
    if wanted.type == "json_object":
        return {"json_object": True}
    return {"json_schema": wanted.json_schema.schema_} if wanted.json_schema else {}


def _biases(biases: dict[str, float] | None) -> dict[int, float]:
    found: dict[int, float] = {}
    for name, bias in (biases or {}).items():
        if not re.fullmatch(r"0|[1-9][0-9]{0,9}", name) or not -100 <= bias <= 100:
            message = 'give numbers from -100 to 100 by token id, as in {"1734": -2.5}'
            raise invalid("logit_bias", message)
        found[int(name)] = bias
    return found


def _prompts(prompt: str | Sequence[Any], llm: LLM) -> list[list[int]]:
    """Return the tokens of one prompt or several."""
    if isinstance(prompt, str) or (prompt and isinstance(prompt[0], int)):
        return [llm.encode(prompt)]
    if not prompt:
        raise PromptError("the prompt is empty; give at least one token of text")
    if len(prompt) > MOST_PROMPTS:
        raise invalid("prompt", f"more than {MOST_PROMPTS} prompts")
    return [llm.encode(one) for one in prompt]


def _is_texts(prompt: Sequence[Any]) -> bool:
    return bool(prompt) and isinstance(prompt[0], str)
