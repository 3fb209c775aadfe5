"""A tiny model behind the real server, on a free port, for tests that talk to it over HTTP."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from outrider.drafters import build_drafter
from outrider.engine.engine import Engine
from outrider.engine.scheduler import Limits
from outrider.llm import LLM
from outrider.models.base import LoadedModel
from outrider.models.vocab import SpecialTokens, TextTokenizer
from outrider.server.app import PAGE, create_app
from outrider.server.run import Server, listen, make_server
from outrider.server.settings import Settings
from outrider.server.site import Site, site_of
from tiny import tiny_config, tiny_decoder

NAME = "tiny"
PLAIN_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
TOOL_TEMPLATE = (
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}"
    "{% for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}"
    "{{ '\n' }}{% endfor %}assistant: "
)


def byte_tokenizer(template: str | None = PLAIN_TEMPLATE) -> TextTokenizer:
    """One token a byte, and one that ends a turn."""
    letters = {symbol: index for index, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = Tokenizer(models.BPE(vocab=letters, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False)])
    end = backend.token_to_id("<|end|>")
    return TextTokenizer(backend, SpecialTokens({"eos_token": "<|end|>"}, frozenset({end})), template)


def tiny_llm(
    drafter: str = "suffix", template: str | None = PLAIN_TEMPLATE, context: int = 512, target: Any = None
) -> LLM:
    """Random weights over bytes: nonsense that repeats itself, so that drafts are kept now and then."""
    torch.set_num_threads(1)
    tokenizer = byte_tokenizer(template)
    if target is None:
        target = tiny_decoder(tiny_config(vocab=257, context_limit=context, hidden=32, inner=48))
    model = LoadedModel(NAME, target, tokenizer)
    return LLM(model, build_drafter(drafter, model), drafter_name=drafter, rule="auto", budget=None)


@dataclass
class Served:
    """A running server."""

    url: str
    llm: LLM
    engine: Engine
    site: Site
    server: Server

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        if body is not None:
            options["json"] = body
        return httpx.post(self.url + path, timeout=120, trust_env=False, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(self.url + path, timeout=120, trust_env=False, **options)

    def complete(self, **body: Any) -> dict[str, Any]:
        """Return the answer to a completion that goes well."""
        answer = self.post("/v1/completions", {"model": NAME, **body})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def stream(self, path: str = "/v1/completions", **body: Any) -> list[dict[str, Any]]:
        """Return the events of a stream that goes well, without the mark at its end."""
        answer = self.post(path, {"model": NAME, "stream": True, **body})
        assert answer.status_code == 200, answer.text
        return events(answer.text)


def events(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def until(condition: Callable[[], Any]) -> None:
    """Wait for something that another thread brings about."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came about")


@contextmanager
def serving(
    llm: LLM,
    *,
    limits: Limits | None = None,
    page: Path = PAGE,
    send_buffer: int | None = None,
    **settings: Any,
) -> Iterator[Served]:
    """Serve a model while the block runs; at its end nothing of any request is left."""
    engine = llm.engine(limits)
    site = site_of(llm, engine, Settings(**{"name": NAME, "drain": 20.0, **settings}), "0")
    listening = listen("127.0.0.1", 0)
    if send_buffer is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    server = make_server(create_app(site, page=page), site)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        yield Served(url, llm, engine, site, server)
    finally:
        server.drain()
        thread.join(60)
        assert not thread.is_alive(), "the server ends"
    assert not engine.busy, "nothing is left in the engine"
