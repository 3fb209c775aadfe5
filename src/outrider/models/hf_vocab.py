"""Tokenizers of Hugging Face checkpoints: from their files, or wrapped around a transformers object."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from outrider.errors import CapabilityError, LoadError, PromptError
from outrider.models.base import Tokenizer
from outrider.models.plain_messages import PlainMessages
from outrider.models.safetensors_source import read_json
from outrider.models.vocab import SpecialTokens, TextTokenizer, check_tools, encoded, end_of_turn_ids

_ROLES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


def tokenizer_from_directory(directory: Path) -> Tokenizer:
    """Return the tokenizer of a checkpoint directory.

    `tokenizer.json` alone says what stands around an encoded text, as in transformers 5, which passes over
    `add_bos_token` beside it; `tokenizer_config.json` adds special tokens and the chat template. A directory
    without the former is left to transformers; LoadError where that is missing or cannot read it either.
    """
    if not (directory / "tokenizer.json").exists():
        return _through_transformers(directory)
    config = {
        **_optional(directory / "special_tokens_map.json"),
        **_optional(directory / "tokenizer_config.json"),
    }
    try:
        backend = Backend.from_file(str(directory / "tokenizer.json"))
    except Exception as error:  # the Rust side raises bare Exception
        raise LoadError(f"{directory / 'tokenizer.json'} is damaged ({error}); download it again") from error
    texts = {role: text for role in _ROLES if (text := _text(config.get(role))) is not None}
    missing = [
        AddedToken(text, normalized=False) for text in texts.values() if backend.token_to_id(text) is None
    ]
    backend.add_special_tokens(missing)
    added = {token.content: id for id, token in backend.get_added_tokens_decoder().items() if token.special}
    named = [backend.token_to_id(texts["eos_token"])] if "eos_token" in texts else []
    special = SpecialTokens(texts, end_of_turn_ids(added, *named, *_eos_ids(directory)))
    return TextTokenizer(backend, special, _chat_template(directory, config))


class TransformersTokenizer:
    """A tokenizer of transformers behind `outrider.models.base.Tokenizer`."""

    def __init__(self, tokenizer: Any, eos_ids: Iterable[int] = ()) -> None:
        self._tokenizer = tokenizer
        self.has_chat_template = bool(getattr(tokenizer, "chat_template", None))
        added = getattr(tokenizer, "added_tokens_decoder", {})
        special = {token.content: index for index, token in added.items() if token.special}
        self.eos_ids = end_of_turn_ids(special, tokenizer.eos_token_id, *eos_ids)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text; `special` adds what the model expects around it (BOS).

        A control token's text in it is that token.
        """
        return list(self._tokenizer(text, add_special_tokens=special)["input_ids"])

    def decode(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
        """Return the text of tokens; incomplete UTF-8 becomes U+FFFD."""
        return str(
            self._tokenizer.decode(
                list(tokens), skip_special_tokens=skip_special, clean_up_tokenization_spaces=False
            )
        )

    @property
    def chat_template(self) -> str | None:
        """The chat template; None where there is none."""
        return str(self._tokenizer.chat_template) if self.has_chat_template else None

    def chat(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] | None = None
    ) -> list[int]:
        """Put messages, and tools that may be called, through the chat template; what they say is text.

        CapabilityError without a template; PromptError where it turns the messages down, and for the text of
        a control token where the tokenizer is one in Python.
        """
        if not self.has_chat_template:
            raise CapabilityError("this model has no chat template; give it plain text (drop --chat)")
        plain = self._plain_messages
        guarded = list(messages) if plain is None else plain.guard(messages)
        offered = None if tools is None else list(tools) if plain is None else plain.guard(tools)
        try:
            check_tools(str(self._tokenizer.chat_template), tools)
            text = self._tokenizer.apply_chat_template(
                guarded, tools=offered, add_generation_prompt=True, tokenize=False
            )
        except (TemplateError, TypeError) as error:
            raise PromptError(f"the chat template turned the messages down: {error}") from error
        if plain is not None:
            return encoded(lambda: plain.encode(text))
        said = json.dumps([guarded, offered], ensure_ascii=False, default=str)
        control = next((token for token in self._tokenizer.all_special_tokens if token in said), None)
        if control is not None:
            raise PromptError(
                f"a message holds {control!r}, which this tokenizer can only read as a control token; "
                "take it out"
            )
        return self.encode(text, special=False)

    @cached_property
    def _plain_messages(self) -> PlainMessages | None:
        description = self.description()
        if description is None:
            return None
        return PlainMessages(Backend.from_str(description), str(self._tokenizer.chat_template), self.eos_ids)

    def vocabulary(self) -> dict[str, int]:
        """Return every token's text with its id, added tokens included."""
        return dict(self._tokenizer.get_vocab())

    def description(self) -> str | None:
        """Return the whole tokenizer as JSON in the format of `tokenizers`; None for one in Python."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, Backend):
            return None
        copy = Backend.from_str(backend.to_str())
        copy.no_truncation()
        copy.no_padding()
        return str(copy.to_str())


def eos_ids_of(*configs: Mapping[str, Any]) -> list[int]:
    """Return the `eos_token_id` of configurations, each a number, a list of them or absent."""
    found: list[int] = []
    for config in configs:
        value = config.get("eos_token_id")
        found += value if isinstance(value, list) else [] if value is None else [value]
    return found


def _eos_ids(directory: Path) -> list[int]:
    return eos_ids_of(_optional(directory / "generation_config.json"), _optional(directory / "config.json"))


def _through_transformers(directory: Path) -> TransformersTokenizer:
    if importlib.util.find_spec("transformers") is None:
        raise LoadError(
            f"{directory} has no tokenizer.json; reading its older tokenizer files needs: "
            'pip install "transformers>=5.0"'
        )
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(directory), local_files_only=True)
    except (OSError, ValueError, ImportError, TypeError) as error:
        raise LoadError(
            f"{directory} has no tokenizer.json, and transformers cannot build its tokenizer: {error}"
        ) from error
    return TransformersTokenizer(tokenizer, _eos_ids(directory))


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def _text(token: Any) -> str | None:
    """Return the text of a special token, written as a string or as a table with its `content`."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) and token else None


def _chat_template(directory: Path, config: Mapping[str, Any]) -> str | None:
    file = directory / "chat_template.jinja"
    if file.exists():
        return file.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, Mapping)}
        template = named.get("default")
    return template if isinstance(template, str) else None
