"""What people write in messages is text: control tokens come from the chat template alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from outrider.errors import PromptError

# Code points that Unicode sets aside for use inside a program: the first breaks up what a message must not
# say, the second stands around the number of a control token that the template wrote.
_BREAK, _FENCE = "\ufdd0", "\ufdd1"


class PlainMessages:
    """Encodes rendered chats so that nothing in a message is read as a control token.

    Before the template runs, `guard` breaks up every control token's text in a message, and one's beginning
    at the end of a message, which something else could complete. What the tokenizer then finds is the
    template's own. `encode` mends the breaks and has those, and only those, read as tokens. A chat without
    such texts is encoded as any text.
    """

    def __init__(self, backend: Backend, template: str | None = None, eos_ids: Iterable[int] = ()) -> None:
        """Control tokens are a backend's special tokens, those that end a turn, and turn marks.

        Some checkpoints don't say of their turn marks that they are special: an added token that `template`
        writes is one, unless it is of a pair like <think> and </think>, which models write themselves.
        """
        self._backend, self._template, self._ends = backend, template or "", frozenset(eos_ids)

    def guard(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the messages with control tokens' texts broken up, for the template to render."""
        return [
            # A role is what some templates make a control token of, so its beginnings stay.
            {name: self._guarded(value, beginnings=name != "role") for name, value in message.items()}
            for message in messages
        ]

    def encode(self, rendered: str) -> list[int]:
        """Return the tokens of what the template made of guarded messages.

        PromptError where this tokenizer has no way to write a control token's text as plain text.
        """
        found = self._backend.encode(rendered, add_special_tokens=False)
        if _BREAK not in rendered:
            return list(found.ids)
        names = {id: text for text, id in self._control.items()}
        pieces, written, at = [], [], 0
        for id, (start, end) in zip(found.ids, found.offsets, strict=True):
            if id in names and rendered[start:end].strip() == names[id].strip():
                pieces += [rendered[at:start], f"{_FENCE}{id}{_FENCE}"]
                written.append(id)
                at = end
        text = "".join([*pieces, rendered[at:]]).replace(_BREAK, "")
        tokens = [self._aliases.get(id, id) for id in self._fenced.encode(text, add_special_tokens=False).ids]
        if [id for id in tokens if id in names] != written:
            texts = sorted(set(self._pattern.findall(rendered.replace(_BREAK, ""))))
            raise PromptError(
                "a message holds the text of a control token, which this tokenizer cannot write as plain "
                f"text; take it out ({', '.join(texts)})"
            )
        return tokens

    def _guarded(self, value: Any, *, beginnings: bool = True) -> Any:
        if isinstance(value, Mapping):
            return {self._guarded(name): self._guarded(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._guarded(inner) for inner in value]
        if not isinstance(value, str) or not self._control:
            return value
        if _BREAK in value or _FENCE in value:
            raise PromptError("a message holds U+FDD0 or U+FDD1, which stand for no character; take it out")
        text = self._pattern.sub(lambda match: match[0][0] + _BREAK + match[0][1:], value)
        body = text.rstrip()  # many templates trim
        longest = min(len(body), max(map(len, self._control)))
        begun = next((n for n in range(longest, 0, -1) if body[-n:] in self._beginnings), 0)
        if not begun or not beginnings:
            return text
        cut = len(body) - begun + 1
        return text[:cut] + _BREAK + text[cut:]

    @cached_property
    def _control(self) -> dict[str, int]:
        """Text and id of each control token; one of a single character could not be broken up."""
        added = self._backend.get_added_tokens_decoder()
        texts = {token.content for token in added.values()}
        unknown = getattr(self._backend.model, "unk_token", None)  # stands for any text
        return {
            token.content: id
            for id, token in added.items()
            if len(token.content.strip()) > 1
            and token.content != unknown
            and (token.special or id in self._ends or self._is_turn_mark(token.content, texts))
        }

    def _is_turn_mark(self, text: str, texts: set[str]) -> bool:
        partner = text.replace("</", "<", 1) if text.startswith("</") else text.replace("<", "</", 1)
        return text in self._template and (partner == text or partner not in texts)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, sorted(self._control, key=len, reverse=True))))

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        return frozenset(text[:length] for text in self._control for length in range(1, len(text)))

    @cached_property
    def _fenced(self) -> Backend:
        """The tokenizer with its control tokens switched off, and a fenced number in place of each."""
        description = json.loads(self._backend.to_str())
        added = {token["content"]: token for token in description["added_tokens"]}
        for text in self._control:
            added[text]["special"] = True
        backend = Backend.from_str(json.dumps(description))
        backend.encode_special_tokens = True
        flags = {
            id: {flag: added[text][flag] for flag in ("lstrip", "rstrip", "normalized")}
            for text, id in self._control.items()
        }
        backend.add_tokens([AddedToken(f"{_FENCE}{id}{_FENCE}", **flags[id]) for id in flags])
        return backend

    @cached_property
    def _aliases(self) -> dict[int, int]:
        aliases = ((self._fenced.token_to_id(f"{_FENCE}{id}{_FENCE}"), id) for id in self._control.values())
        return {alias: id for alias, id in aliases if alias is not None}
