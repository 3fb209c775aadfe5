"""The text and the bytes of single tokens, for logprobs."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from outrider.models.base import Tokenizer


class TokenTexts:
    """What single tokens of a model stand for; worked out when first asked for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that a token adds to a text; b"" for an id without a token."""
        written = self._written.get(token)
        if written is None:
            return b""
        if token in self._literal:
            return written.encode("utf-8")
        if self._style == "bytes":
            if all(letter in _LETTERS for letter in written):
                return bytes(_LETTERS[letter] for letter in written)
            return written.encode("utf-8")
        if self._style == "spaces":
            if len(written) == 6 and written.startswith("<0x") and written.endswith(">"):
                return bytes.fromhex(written[3:5])
            return written.replace("\u2581", " ").encode("utf-8")
        return self._tokenizer.decode([token], skip_special=False).encode("utf-8")

    def shown_bytes_of(self, token: int) -> bytes:
        """Return the bytes of a token that a text shows: none of a special token."""
        return b"" if token in self._special else self.bytes_of(token)

    def text_of(self, token: int) -> str:
        r"""Return the text of a token; of one that holds a part of a character only "bytes:\xe2\x82"."""
        held = self.bytes_of(token)
        try:
            return held.decode("utf-8")
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in held)

    @cached_property
    def _written(self) -> dict[int, str]:
        return {token: text for text, token in self._tokenizer.vocabulary().items()}

    @cached_property
    def _description(self) -> dict[str, Any]:
        text = self._tokenizer.description()
        found: dict[str, Any] = {} if text is None else json.loads(text)
        return found

    @cached_property
    def _literal(self) -> frozenset[int]:
        """Added tokens are written as they are."""
        return frozenset(token["id"] for token in self._description.get("added_tokens", ()))

    @cached_property
    def _special(self) -> frozenset[int]:
        added = self._description.get("added_tokens", ())
        return frozenset(token["id"] for token in added if token["special"]) | self._tokenizer.eos_ids

    @cached_property
    def _style(self) -> str:
        kinds = set(_kinds(self._description.get("decoder")))
        return "bytes" if "ByteLevel" in kinds else "spaces" if kinds & {"Metaspace", "ByteFallback"} else ""


class Offsets:
    """Where tokens begin in a text, in characters, as they come."""

    def __init__(self, start: int = 0) -> None:
        self._decoder, self._at = codecs.getincrementaldecoder("utf-8")("replace"), start

    def next(self, held: bytes) -> int:
        """Return where the next token begins, which holds these bytes."""
        begins = self._at
        self._at += len(self._decoder.decode(held))
        return begins


def _kinds(decoder: Any) -> Iterable[str]:
    if isinstance(decoder, dict):
        yield str(decoder.get("type"))
        for inner in decoder.get("decoders", ()):
            yield from _kinds(inner)


def _letters() -> dict[str, int]:
    """Return the byte that each letter of byte-level vocabularies stands for (as in GPT-2's).

    Printable bytes stand for themselves, the others follow from U+0100 on in their order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_LETTERS = _letters()
