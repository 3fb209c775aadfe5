"""A tokenizer with its chat template, the same whichever file it was read from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer as Backend

from outrider.errors import CapabilityError, PromptError
from outrider.models.plain_messages import PlainMessages

END_OF_TURN = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<end_of_turn>",
    "<|eot|>",
    "<|end_of_turn|>",
)
"""Control tokens by which the common chat formats end a turn or a text."""


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens a chat template may write, by role (`bos_token` …), and the ids that end a turn."""

    texts: Mapping[str, str] = field(default_factory=dict)
    eos_ids: frozenset[int] = frozenset()


class TextTokenizer:
    """Text to tokens and back, over a `tokenizers` backend.

    What `encode` puts around a text is the backend's post-processor, fixed at loading. Implements
    `outrider.models.base.Tokenizer`.
    """

    def __init__(self, backend: Backend, special: SpecialTokens, chat_template: str | None = None) -> None:
        backend.no_truncation()
        backend.no_padding()
        self.backend = backend
        self.eos_ids = special.eos_ids
        self.has_chat_template = chat_template is not None
        self._special, self._template = special, chat_template
        self._messages = PlainMessages(backend, chat_template, special.eos_ids)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text; `special` adds what the model expects around it (BOS).

        A control token's text in it is that token.
        """
        return encoded(lambda: list(self.backend.encode(text, add_special_tokens=special).ids))

    def decode(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
        """Return the text of tokens; incomplete UTF-8 becomes U+FFFD, ids without a token become nothing."""
        return str(self.backend.decode(list(tokens), skip_special_tokens=skip_special))

    @property
    def chat_template(self) -> str | None:
        """The chat template; None where there is none."""
        return self._template

    def chat(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] | None = None
    ) -> list[int]:
        """Put messages, and tools that may be called, through the chat template, ready for the assistant's
        turn.

        What a message or a tool says is text, also where it spells a control token. CapabilityError without a
        template, or for tools that it does not read; PromptError with the template's own words where it turns
        the messages down.
        """
        if self._template is None:
            raise CapabilityError("this model has no chat template; give it plain text (drop --chat)")
        guarded = self._messages.guard(messages)
        offered = None if tools is None else self._messages.guard(tools)
        try:
            check_tools(self._template, tools)
            text = render_chat(self._template, guarded, self._special.texts, offered)
        except (TemplateError, TypeError) as error:
            raise PromptError(f"the chat template turned the messages down: {error}") from error
        return encoded(lambda: self._messages.encode(text))

    def vocabulary(self) -> dict[str, int]:
        """Return every token's text with its id, added tokens included."""
        return dict(self.backend.get_vocab(with_added_tokens=True))

    def description(self) -> str:
        """Return the whole tokenizer as JSON in the format of `tokenizers`."""
        return str(self.backend.to_str())

    def configuration(self) -> dict[str, Any]:
        """Return what stands beside it in a `tokenizer_config.json`: special tokens and chat template."""
        template = {} if self._template is None else {"chat_template": self._template}
        return {"tokenizer_class": "PreTrainedTokenizerFast", **self._special.texts, **template}


def encoded(run: Callable[[], list[int]]) -> list[int]:
    """Return what an encoder gives; PromptError for a text with surrogates in it."""
    try:
        return run()
    except TypeError as error:  # what the backend says of surrogates
        raise PromptError("the text is not valid Unicode (it holds surrogates); mend its encoding") from error


def check_tools(template: str, tools: Sequence[dict[str, Any]] | None) -> None:
    """Raise CapabilityError where tools are given to a chat template that does not read them."""
    if tools is not None and "tools" not in find_undeclared_variables(_environment().parse(template)):
        raise CapabilityError("this model's chat template knows no tools; leave them out")


def render_chat(
    template: str,
    messages: Sequence[dict[str, Any]],
    texts: Mapping[str, str],
    tools: Sequence[dict[str, Any]] | None = None,
) -> str:
    """Return the text that a chat template makes of messages, with the opening of the assistant's turn.

    Templates come with the weights and are untrusted: they run in jinja2's immutable sandbox. `texts` are the
    special tokens by role. jinja2's TemplateError where the template fails or refuses the messages.
    """

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def strftime_now(layout: str) -> str:
        return datetime.now().strftime(layout)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        # Unlike jinja2's own filter this one leaves <, > and & alone: the text goes to a model, not to HTML.
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    environment = _environment()
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    compiled = environment.from_string(template)
    return compiled.render(
        messages=list(messages), tools=tools, documents=None, add_generation_prompt=True, **texts
    )


def _environment() -> ImmutableSandboxedEnvironment:
    return ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])


def end_of_turn_ids(special_tokens: Mapping[str, int], *named: int | None) -> frozenset[int]:
    """Return the ids that end a turn: those named as such, and the known ones among the special tokens."""
    known = {special_tokens[text] for text in END_OF_TURN if text in special_tokens}
    return frozenset(known | {token for token in named if token is not None})
