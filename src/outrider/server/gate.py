"""What every request passes first: its id, its key; and last: its line in the log, errors nobody foresaw."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outrider.server import log
from outrider.server.errors import ApiError, of_exception
from outrider.server.site import Site
from outrider.server.work import Disconnected

OPEN = frozenset({"/health", "/ready"})
"""Paths that need no key."""
GUARDED = ("/v1/", "/tokenize", "/detokenize", "/metrics", "/version", "/openapi.json")
"""Beginnings of paths that need one; all others are the page's files."""
QUIET = frozenset({"/health", "/ready", "/metrics"})
"""Paths that are asked for all the time: no line for those that went well."""
_ID = re.compile(rb"[\x21-\x7e]{1,128}")


class Gate:
    """An ASGI application around the server's own."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app, self._site = app, site
        self._keys = [key.encode("ascii") for key in site.settings.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        id = given.decode("ascii") if _ID.fullmatch(given) else secrets.token_hex(8)
        fields: dict[str, Any] = {"id": id, "method": scope["method"], "path": scope["path"][:200]}
        scope.setdefault("state", {})
        scope["state"] |= {"fields": fields, "tenant": ""}
        begun, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", id.encode("ascii"))]
            await send(message)

        try:
            scope["state"]["tenant"] = self._tenant(scope["path"], headers.get(b"authorization", b""))
            await self._app(scope, receive, sending)
        except Disconnected:
            status = status or 499
            fields["disconnected"] = True
        except Exception as error:
            answer = of_exception(error)
            if answer.status == 500:
                fields |= log.failure(error)
            if not status:
                await answer.response()(scope, receive, sending)
        if "failure" in scope["state"]:
            fields |= log.failure(scope["state"]["failure"])
        if status >= 400:
            self._site.metrics.refused(status)
        if scope["path"] not in QUIET or status >= 400:
            level = logging.ERROR if "error" in fields else logging.INFO
            seconds = round(time.perf_counter() - begun, 6)
            log.note("request", {**fields, "status": status, "seconds": seconds}, level)

    def _tenant(self, path: str, authorization: bytes) -> str:
        """Return on whose behalf a request comes: a name made of its key. ApiError without a right one."""
        if not self._keys or path in OPEN or not path.startswith(GUARDED):
            return ""
        scheme, _, key = authorization.partition(b" ")
        # All keys are looked at, each in a time that tells nothing of where they differ.
        right = [hmac.compare_digest(key.strip(), known) for known in self._keys]
        if scheme.lower() != b"bearer" or not any(right):
            message = "this server needs an API key: send the header Authorization: Bearer KEY"
            raise ApiError(401, message, code="invalid_api_key")
        return hashlib.sha256(key.strip()).hexdigest()[:12]
