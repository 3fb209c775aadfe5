"""The paths of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from outrider.engine.result import Result
from outrider.errors import OutriderError
from outrider.llm import LLM
from outrider.models.base import Tokenizer
from outrider.server import schema
from outrider.server.answer import Choice, Envelope, usage
from outrider.server.body import parse, read_body
from outrider.server.conversation import template_messages, template_tools
from outrider.server.errors import ApiError, dumps, invalid, of_exception
from outrider.server.files import page_routes
from outrider.server.gate import Gate
from outrider.server.metrics import CONTENT_TYPE
from outrider.server.openapi import describe
from outrider.server.settings import Settings
from outrider.server.site import Live, Site
from outrider.server.stream import EventStream
from outrider.server.translate import Job, chat_job, check_model, completion_job
from outrider.server.work import Disconnected, check_takes, held, prepare, results_of, unless_gone

PAGE = Path(__file__).parent / "page"
"""What is served at `/`, where it holds an index.html."""

Asked = TypeVar("Asked", bound=schema.Common)
Make = Callable[[Asked, LLM, Settings, str], Job]


def create_app(site: Site, *, page: Path = PAGE) -> ASGIApp:
    """Return the ASGI application of a site; its end closes the site."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(site.close)

    app = FastAPI(title="outrider", docs_url=None, redoc_url=None, lifespan=lifespan, redirect_slashes=False)
    describe(app, site.fingerprint)
    for error in (ApiError, OutriderError, HTTPException, Exception):
        app.add_exception_handler(error, _answer)

    async def completions(request: Request) -> Response:
        return await _complete(site, request, schema.CompletionRequest, completion_job)

    async def chat(request: Request) -> Response:
        return await _complete(site, request, schema.ChatRequest, chat_job)

    async def tokenize(request: Request) -> Response:
        body, _ = await _body(site, request, schema.TokenizeRequest)
        check_model(body.model, site.settings)
        tokens = await asyncio.to_thread(_tokens, body, site.llm.model.tokenizer)
        limit = site.llm.model.target.context_limit
        return _json({"count": len(tokens), "max_model_len": limit, "tokens": tokens})

    async def detokenize(request: Request) -> Response:
        body, _ = await _body(site, request, schema.DetokenizeRequest)
        check_model(body.model, site.settings)
        size = site.llm.model.target.vocab_size
        bad = next((token for token in body.tokens if not 0 <= token < size), None)
        if bad is not None:
            raise invalid("tokens", f"token {bad} is outside this model's vocabulary (0 to {size - 1})")
        text = await asyncio.to_thread(site.llm.model.tokenizer.decode, body.tokens, skip_special=False)
        return _json({"prompt": text})

    async def models() -> Response:
        return _json({"object": "list", "data": [_model(site)]})

    async def model(name: str) -> Response:
        check_model(name, site.settings)
        return _json(_model(site))

    async def health() -> Response:
        return _json({"status": "ok"})

    async def ready() -> Response:
        check_takes(site)
        return _json({"status": "ready"})

    async def version() -> Response:
        return _json({"version": site.fingerprint.removeprefix("outrider-")})

    async def metrics() -> Response:
        return Response(site.metrics.render(), media_type=CONTENT_TYPE)

    posts = {"/v1/completions": completions, "/v1/chat/completions": chat}
    posts |= {"/tokenize": tokenize, "/detokenize": detokenize}
    for path, endpoint in posts.items():
        app.post(path)(endpoint)
    gets: dict[str, Callable[..., Any]] = {"/v1/models": models, "/v1/models/{name:path}": model}
    gets |= {"/health": health, "/ready": ready, "/version": version, "/metrics": metrics}
    for path, reader in gets.items():
        app.get(path)(reader)
    app.router.routes += page_routes(page)
    return Gate(app, site)


async def _complete(site: Site, request: Request, kind: type[Asked], make: Make[Asked]) -> Response:
    """Answer a completion of either kind."""
    check_takes(site)
    live = Live()
    body, size = await _body(site, request, kind)
    check_takes(site)  # it may have begun to end meanwhile
    check_model(body.model, site.settings)
    tenant = request.state.tenant
    job = await prepare(site, body, size, lambda: make(body, site.llm, site.settings, tenant), live)

    def told(envelope: Envelope, results: list[Result]) -> None:
        request.state.fields |= _fields(site, job, envelope, results, live)

    if job.stream:
        return EventStream(site, job, live, told)
    envelope = Envelope(site, job)
    with held(site, live):
        chosen, drawn = await unless_gone(request.receive, results_of(job, live))
    told(envelope, drawn)
    choices = [_choice(site, job, index, result) for index, result in enumerate(chosen)]
    return _json({**envelope.head, "choices": choices, "usage": usage(job, drawn)})


def _choice(site: Site, job: Job, index: int, result: Result) -> dict[str, Any]:
    text, logprobs = result.text, list[Any](result.logprobs or ())
    if job.silent:
        text, logprobs = "", []
    if job.echoes is not None:
        text = job.echoes[index // job.params.n] + text
        logprobs = [*(result.prompt_logprobs or ()), *logprobs]
    return Choice(site, job, index).whole(text, logprobs, result)


def _fields(site: Site, job: Job, envelope: Envelope, results: list[Result], live: Live) -> dict[str, Any]:
    """Return what the log says of a completion."""
    clocks = [handle.request.clock for handle in live.handles]
    first = min((clock.first for clock in clocks if clock.first is not None), default=None)
    fields = {
        "completion": envelope.id,
        **usage(job, results),
        "samples": len(live.handles),
        "stream": job.stream,
        "finish": sorted({result.finish_reason for result in results}),
        "first_token_seconds": None if first is None else round(first - live.arrived, 6),
        "drafted": sum(result.speculation.drafted for result in results),
        "accepted": sum(result.speculation.accepted for result in results),
    }
    if site.settings.log_text:
        decode = site.llm.model.tokenizer.decode
        fields["prompts"] = [decode(prompt, skip_special=False) for prompt in job.prompts]
        fields["texts"] = [result.text for result in results]
    return fields


async def _body(site: Site, request: Request, kind: type[Any]) -> tuple[Any, int]:
    """Return the checked body of a request, and its size in bytes."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        message = "send JSON with the header Content-Type: application/json"
        raise ApiError(415, message, code="unsupported_media_type")
    settings = site.settings
    data = await read_body(request, settings.most_body, settings.body_timeout)
    return parse(data, kind), len(data)


def _tokens(body: schema.TokenizeRequest, tokenizer: Tokenizer) -> list[int]:
    if (body.prompt is None) == (body.messages is None):
        raise invalid("prompt", "give either a prompt or messages")
    if body.prompt is not None:
        if body.tools is not None:
            raise invalid("tools", "tools go with messages")
        return tokenizer.encode(body.prompt, special=body.add_special_tokens)
    assert body.messages is not None
    if not body.add_special_tokens:
        raise invalid(
            "add_special_tokens", "the chat template says what stands around messages; leave it out"
        )
    return tokenizer.chat(template_messages(body.messages), template_tools(body.tools))


def _model(site: Site) -> dict[str, Any]:
    return {
        "id": site.settings.name,
        "object": "model",
        "created": site.started,
        "owned_by": "outrider",
        "max_model_len": site.llm.model.target.context_limit,
    }


async def _answer(_: Request, error: Exception) -> Response:
    if isinstance(error, Disconnected):
        return Response(status_code=499)  # nobody reads it; the log does
    if isinstance(error, HTTPException):
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code)
        return ApiError(error.status_code, str(error.detail), code=code).response()
    return of_exception(error).response()


def _json(document: Any) -> Response:
    return Response(dumps(document), media_type="application/json")
