"""What a target is to answer: prompts of a file, or an opening after which it writes its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.bench.suites.reader import read_suite
from outrider.errors import CapabilityError, LoadError
from outrider.models.base import Tokenizer


@dataclass(frozen=True, slots=True)
class Conversation:
    """The user's turns of one prompt, after a system message where there is one."""

    turns: tuple[str, ...]
    system: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from others: its words, without the space between them."""
        return tuple(" ".join(text.split()) for text in (self.system or "", *self.turns))


@dataclass(frozen=True, slots=True)
class PromptFile:
    """The conversations of a file, and a sum of its bytes."""

    conversations: tuple[Conversation, ...]
    digest: str


def read_prompts(path: Path) -> PromptFile:
    """Read prompts; LoadError names the line that is malformed.

    A .txt file holds one prompt a line. Any other holds a JSON object a line: `messages` as OpenAI's
    programs write them, Spec-Bench's `turns`, or `prompt`. Of messages the system's and the user's are
    taken; what an assistant said there is left out, because the target answers anew.
    """
    try:
        data = path.read_bytes()
        lines = data.decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"cannot read prompts from {str(path)!r}: {error}") from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    digest = hashlib.sha256(data).hexdigest()
    if path.suffix == ".txt" or not numbered or '"messages"' not in numbered[0][1]:
        suite = read_suite(path)
        return PromptFile(tuple(Conversation(prompt.turns) for prompt in suite.prompts), digest)
    return PromptFile(tuple(_conversation(path, number, line) for number, line in numbered), digest)


def opening(tokenizer: Tokenizer) -> list[int]:
    """Return the tokens after which the target writes a user's turn, or a text where it has no turns.

    With a chat template that is all it puts before what a user says (Xu et al. 2024, "Magpie",
    arXiv 2406.08464); without one, what the tokenizer puts before a text. CapabilityError where that is
    nothing.
    """
    if tokenizer.has_chat_template:
        first, second = (tokenizer.chat([{"role": "user", "content": text}]) for text in ("A", "7"))
        same = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
        start = first[:same]
    else:
        start = tokenizer.encode("")
    if not start:
        raise CapabilityError(
            "this model's template and tokenizer put nothing before a text, so it cannot write prompts of "
            "its own; give some with --prompts FILE"
        )
    return start


def messages(conversation: Conversation, answers: Sequence[str]) -> list[dict[str, Any]]:
    """Return the messages up to the turn that is to be answered next, after these answers."""
    said: list[dict[str, Any]] = []
    if conversation.system is not None:
        said.append({"role": "system", "content": conversation.system})
    for turn, answer in zip(conversation.turns, [*answers, None], strict=False):
        said.append({"role": "user", "content": turn})
        if answer is not None:
            said.append({"role": "assistant", "content": answer})
    return said


def _conversation(path: Path, number: int, line: str) -> Conversation:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise _malformed(path, number, f"this is not JSON ({error.msg})") from error
    given = row.get("messages") if isinstance(row, dict) else None
    if not isinstance(given, list) or not all(isinstance(message, dict) for message in given):
        raise _malformed(path, number, 'it needs "messages" (a list of objects), as the first line has')
    texts: dict[str, list[str]] = {"system": [], "user": [], "assistant": []}
    for message in given:
        role, content = message.get("role"), message.get("content")
        if role not in texts:
            raise _malformed(path, number, f"the role {role!r} is not system, user or assistant")
        if role != "assistant" and (not isinstance(content, str) or not content):
            raise _malformed(path, number, f"a message of the {role} has no text as its content")
        texts[role].append(content)
    if not texts["user"]:
        raise _malformed(path, number, "no message is the user's")
    return Conversation(tuple(texts["user"]), "\n\n".join(texts["system"]) or None)


def _malformed(path: Path, number: int, what: str) -> LoadError:
    return LoadError(f"{str(path)!r}, line {number}: {what}; mend or remove the line")
