"""Messages and tools of a request, as chat templates know them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from outrider.server.errors import ApiError, invalid
from outrider.server.schema import Message, Tool


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages for a chat template: text as one string, arguments of earlier calls as objects."""
    return [_message(number, message) for number, message in enumerate(messages)]


def template_tools(tools: Sequence[Tool] | None) -> list[dict[str, Any]] | None:
    """Return tools for a chat template."""
    return None if tools is None else [tool.model_dump(exclude_none=True) for tool in tools]


def _message(number: int, message: Message) -> dict[str, Any]:
    role = "system" if message.role == "developer" else message.role
    made: dict[str, Any] = {"role": role}
    content = message.content
    if isinstance(content, list):
        content = "\n".join(part.text for part in content)
    if content is None and not message.tool_calls:
        raise _refused(number, "content", "a message needs a content")
    made["content"] = content or ""
    if message.tool_calls is not None:
        if role != "assistant":
            raise _refused(number, "tool_calls", f"a message of the role {message.role!r} calls no tools")
        made["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.function.name,
                    "arguments": _arguments(number, call.function.arguments),
                },
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        if role != "tool":
            raise _refused(number, "tool_call_id", "only a message of the role 'tool' answers a call")
        made["tool_call_id"] = message.tool_call_id
    return made


def _arguments(number: int, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _refused(number, "tool_calls", "the arguments of a call must be a JSON object, as text")
    return found


def _refused(number: int, name: str, message: str) -> ApiError:
    return invalid(f"messages.{number}.{name}", message)
