"""What may be given as a prompt: text, token ids, a conversation, or several of these."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, TypeGuard

from outrider.errors import PromptError

Messages = Sequence[dict[str, Any]]
Prompt = str | Sequence[int]


def is_messages(prompt: Any) -> TypeGuard[Messages]:
    """Tell a conversation: a list of dicts."""
    listed = isinstance(prompt, list | tuple) and len(prompt) > 0
    return listed and all(isinstance(part, dict) for part in prompt)


def check_messages(messages: Messages) -> Messages:
    """Return a conversation as it is; PromptError for a message without a role, or with nothing to say.

    `content` is a text or a list of parts. A message that holds `tool_calls` may have none.
    """
    for number, message in enumerate(messages):
        if not isinstance(message.get("role"), str) or not message["role"]:
            raise PromptError(
                f"message {number} has no role; write {{'role': 'user', 'content': …}}, or another role"
            )
        content = message.get("content")
        unsaid = content is None and message.get("tool_calls")
        if not unsaid and not isinstance(content, str | list):
            found = "no content" if content is None else f"a content of type {type(content).__name__}"
            raise PromptError(f"message {number} has {found}; give its text as 'content'")
    return messages


def is_several(prompt: Any) -> bool:
    """Tell several prompts from one: they stand in a list and are each a text or a list themselves."""
    listed = isinstance(prompt, list | tuple) and len(prompt) > 0
    return listed and all(isinstance(part, str | list | tuple) or token_ids(part) for part in prompt)


def token_ids(prompt: Any) -> list[int] | None:
    """Return token ids given as whole numbers in a list, an array or a tensor of one dimension, else None."""
    values = prompt.tolist() if hasattr(prompt, "tolist") else prompt
    if not isinstance(values, list | tuple) or any(isinstance(value, bool) for value in values):
        return None
    return [int(value) for value in values] if all(isinstance(value, Integral) for value in values) else None
