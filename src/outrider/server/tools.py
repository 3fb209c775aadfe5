"""Tools: how a chat template is told of them, and how calls are found in what a model writes."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from outrider.server.errors import ApiError

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a model has written."""

    name: str
    arguments: str
    """A JSON object as text."""
    id: str = field(default_factory=lambda: f"call_{secrets.token_hex(12)}")

    @property
    def document(self) -> dict[str, Any]:
        """It in OpenAI's shape."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }


def check_format(template: str | None) -> None:
    """Raise ApiError where a chat template does not tell of tool calls in a form that is read here."""
    if template is None or _OPEN not in template:
        raise ApiError(
            400,
            f"this model's chat template defines no tool calls between {_OPEN} and {_CLOSE}, the form read "
            "here; leave tools out, or write them into a message",
            param="tools",
            code="unsupported",
        )


class CallReader:
    """Takes a text as it comes, and tells apart what is said and what is called.

    A call is a JSON object with `name` and `arguments` between <tool_call> and </tool_call>. What is none
    remains text, wherever it stands, as does a call that was not finished.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str, *, last: bool = False) -> tuple[str, list[Call]]:
        """Return the text that may be shown now, and the calls that are complete."""
        self._held += text
        shown, calls = "", list[Call]()
        while True:
            begin = self._held.find(_OPEN)
            if begin < 0:
                keep = 0 if last else _begun(self._held)
                shown, self._held = (
                    shown + self._held[: len(self._held) - keep],
                    self._held[len(self._held) - keep :],
                )
                break
            end = self._held.find(_CLOSE, begin)
            if end < 0:
                shown, self._held = shown + self._held[:begin], self._held[begin:]
                if last:
                    shown, self._held = shown + self._held, ""
                break
            call = _call(self._held[begin + len(_OPEN) : end])
            after = end + len(_CLOSE)
            shown += self._held[:begin] if call else self._held[:after]
            calls += [call] if call else []
            self._held = self._held[after:]
        return shown, calls


def _begun(text: str) -> int:
    """Return how many characters at the end may be the beginning of a call."""
    longest = min(len(text), len(_OPEN) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(_OPEN[:size])), 0)


def _call(text: str) -> Call | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return None
    arguments = found.get("arguments", {})
    if not isinstance(arguments, dict):
        return None
    return Call(found["name"], json.dumps(arguments, ensure_ascii=False))
