"""Errors as clients see them: a status and OpenAI's shape, whatever went wrong."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from pydantic import ValidationError
from starlette.responses import Response

from outrider.errors import OutriderError, OverloadedError, UsageError, near_names

TOO_LONG = re.compile(r"the prompt has [\d]+ tokens?, but")
_PYTHON_NAME = re.compile(r"([a-z_]+)(?:=| names )")


class ApiError(Exception):
    """What is answered in place of a completion."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.retry_after = status, param, code, retry_after
        self.kind = kind

    @property
    def document(self) -> dict[str, Any]:
        """The body of the answer."""
        return {
            "error": {"message": str(self), "type": self.kind, "param": self.param, "code": self.code},
        }

    def response(self) -> Response:
        """Return the answer."""
        headers = {"Retry-After": str(max(1, math.ceil(self.retry_after)))} if self.retry_after else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return Response(dumps(self.document), self.status, headers, "application/json")


def dumps(document: Any) -> str:
    """Return JSON on one line; what is no Unicode (lone surrogates) is escaped."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def invalid(param: str, message: str) -> ApiError:
    """Return the error of a field whose value cannot be."""
    return ApiError(400, message, param=param, code="invalid_value")


def unavailable(message: str, code: str, retry_after: float | None = None) -> ApiError:
    """Return the error of a server that cannot take a request now."""
    return ApiError(503, message, kind="server_error", code=code, retry_after=retry_after or 1.0)


def of_exception(error: BaseException) -> ApiError:
    """Return what clients are told of an error; of one that nobody foresaw no more than that."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, OverloadedError):
        return unavailable(str(error), "overloaded", error.retry_after)
    if isinstance(error, UsageError):
        message = str(error)
        if TOO_LONG.match(message):
            return ApiError(400, message, param="prompt", code="context_length_exceeded")
        named = _PYTHON_NAME.match(message)
        return ApiError(400, message, param=named[1] if named else None)
    message = str(error) if isinstance(error, OutriderError) else "the server failed; its log says how"
    return ApiError(500, message, kind="server_error", code="internal_error")


def of_validation(error: ValidationError, known: dict[str, Any]) -> ApiError:
    """Return the error of a body that does not fit; `known` are the fields that it may have."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = [str(step) for step in first["loc"]]
    # Steps that name a variant of a union ("list[int]", "str") are no part of the body.
    param = ".".join(step for step in place if re.fullmatch(r"[\w-]{1,64}", step) and step not in _VARIANTS)
    if first["type"] == "extra_forbidden":
        near = near_names(place[-1], known)[:1] if len(place) == 1 and len(place[0]) <= 64 else []
        hint = f"; did you mean {near[0]!r}?" if near else "; leave it out"
        shown = repr(place[-1][:64])
        return ApiError(400, f"unknown field {shown}{hint}", param=param or None, code="unknown_field")
    if first["type"] == "none_required":
        return ApiError(
            400, "this server does not support this field; leave it out", param=param, code="unsupported"
        )
    if first["type"] == "missing":
        return ApiError(400, "this field is needed and missing", param=param, code="missing_field")
    return ApiError(400, f"{param or 'the body'}: {first['msg']}", param=param or None, code="invalid_value")


_VARIANTS = frozenset({"str", "int", "float", "bool", "list", "dict", "none"})
