"""From the bytes of a request to its checked fields: limits first, then JSON, then every field."""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from outrider.server.errors import ApiError, of_validation

Body = TypeVar("Body", bound=BaseModel)

DRAINED = 64 << 20
"""Bytes of too large a body that are read and dropped, so that the client gets to read the answer."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
DEEPEST = 64
"""Most arrays and objects inside one another."""


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Return the bytes of a body; ApiError for more than `most` bytes, or more than so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, most)
    except TimeoutError:
        raise ApiError(408, f"the body took longer than {seconds:g} s to arrive", code="timeout") from None
    except ClientDisconnect:
        raise ApiError(400, "the client left before its body had arrived", code="disconnected") from None


async def _read(request: Request, most: int) -> bytes:
    pieces, size = bytearray(), 0
    named = request.headers.get("content-length", "")
    refused = named.isascii() and named.isdigit() and int(named[:20]) > most
    async for piece in request.stream():
        size += len(piece)
        refused = refused or size > most
        if not refused:
            pieces += piece
        elif size > DRAINED:
            break
    if refused:
        raise ApiError(
            413, f"the body is larger than this server takes ({most} bytes)", code="request_too_large"
        )
    return bytes(pieces)


def parse(body: bytes, schema: type[Body]) -> Body:
    """Return the checked fields of a body; ApiError, which names the field, where something is wrong."""
    value = read_json(body)
    if not isinstance(value, dict):
        raise ApiError(400, "the body must be a JSON object", code="invalid_json")
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        raise of_validation(error, dict(schema.model_fields)) from None


def read_json(body: bytes) -> Any:
    """Return a JSON value; ApiError for NaN, infinity, a name given twice, half a surrogate, or depth."""
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse, parse_float=_number, object_pairs_hook=_object)
        _check_depth(value)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # a UnicodeEncodeError for half a pair
    except RecursionError:
        raise ApiError(400, "the body is nested too deep", code="invalid_json") from None
    except UnicodeDecodeError:
        raise ApiError(400, "the body is not UTF-8", code="invalid_json") from None
    except ValueError as error:
        raise ApiError(400, f"the body is not valid JSON: {str(error)[:200]}", code="invalid_json") from None
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


def _number(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text[:20])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _check_depth(value: Any) -> None:
    """Raise ValueError for more than `DEEPEST` levels: what follows may walk a value by recursion."""
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ValueError(f"more than {DEEPEST} levels of arrays and objects")
