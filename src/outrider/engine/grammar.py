"""Grammars for one model: what `SamplingParams` asks for, compiled by llguidance against its tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tokenizers import Tokenizer as Backend

from outrider.errors import CapabilityError, OptionError
from outrider.models.base import LoadedModel, Tokenizer
from outrider.sampling.grammar import GrammarConstraint
from outrider.sampling.params import SamplingParams

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_END = "<|end of the grammar|>"
"""A token of the matcher's own: which tokens end a text is a matter of each request."""
_KEPT = 32
"""Most compiled grammars that are kept."""
_LAYOUT = {"whitespace_pattern": r"[ \n\r\t]{1,64}"}
"""Any white space between the parts of JSON, but no model is caught in it for good."""
_USUAL_LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""The JSON that models write on one line."""


class Grammars:
    """Compiles grammars for one vocabulary, and keeps those compiled last."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        self._tokens = _matcher_tokens(tokenizer, vocab_size)
        self._vocab_size = vocab_size
        self._compiled: dict[tuple[str, str], tuple[LLMatcher, LLMatcher | None]] = {}

    def constraint(self, option: str, text: str, ends: Iterable[int]) -> GrammarConstraint:
        """Return a constraint at its beginning; `ends` are the tokens that end the request.

        OptionError where the grammar does not compile, or no text of this vocabulary fits it.
        """
        key = option, text
        if key not in self._compiled:
            self._compiled[key] = self._compile(option, text)
            while len(self._compiled) > _KEPT:
                del self._compiled[next(iter(self._compiled))]
        matcher, style = self._compiled[key]
        made = GrammarConstraint(
            matcher.deep_copy(),
            self._vocab_size,
            own_end=self._tokens.eos_token,
            ends=ends,
            name=option,
            style=None if style is None else style.deep_copy(),
        )
        first = made.mask((), self._vocab_size)
        if first is not None and not first.any():
            raise OptionError(f"{option} allows no text that this model's tokens can write; loosen it")
        return made

    def _compile(self, option: str, text: str) -> tuple[LLMatcher, LLMatcher | None]:
        from llguidance import LLMatcher

        style = None
        if option in ("json_schema", "json_object"):
            grammar = LLMatcher.grammar_from_json_schema(text, defaults=_LAYOUT)  # type: ignore[arg-type]
            usual = LLMatcher.grammar_from_json_schema(text, overrides=_USUAL_LAYOUT)  # type: ignore[arg-type]
            style = LLMatcher(self._tokens, usual, log_level=0)
        elif option == "regex":
            grammar = LLMatcher.grammar_from_regex(text)
        elif option == "choice":
            grammar = "start: " + " | ".join(json.dumps(choice) for choice in json.loads(text))
        else:
            grammar = _lark(text)
        matcher = LLMatcher(self._tokens, grammar, log_level=0)
        if matcher.is_error():
            raise OptionError(f"{option} does not compile: {_reason(matcher.get_error())}; mend it")
        return matcher, None if style is None or style.is_error() else style


def grammar_of(model: LoadedModel, params: SamplingParams, ends: Iterable[int]) -> GrammarConstraint | None:
    """Return the constraint that a request's options ask for, None where they ask for none.

    OptionError where it does not compile or what compiles it is not installed; CapabilityError where the
    model's tokenizer does not tell the bytes of its tokens. The vocabulary is prepared once for each model.
    """
    wanted = params.output_grammar
    if wanted is None:
        return None
    try:
        import llguidance  # noqa: F401
    except ImportError as error:
        raise OptionError(f'{wanted[0]} needs llguidance: pip install "llguidance>=1.9"') from error
    if "grammars" not in model.prepared:
        model.prepared["grammars"] = Grammars(model.tokenizer, model.target.vocab_size)
    grammars: Grammars = model.prepared["grammars"]
    return grammars.constraint(*wanted, ends)


def _matcher_tokens(tokenizer: Tokenizer, vocab_size: int) -> LLTokenizer:
    from llguidance import LLTokenizer

    description = tokenizer.description()
    if description is None:
        raise CapabilityError(
            "this model's tokenizer does not tell the bytes of its tokens, so no grammar can run with it; a "
            "checkpoint with a tokenizer.json has one that does"
        )
    backend = Backend.from_str(description)
    backend.add_special_tokens([_END])
    end = backend.token_to_id(_END)
    assert end is not None
    try:
        return LLTokenizer(backend.to_str(), n_vocab=max(vocab_size, end + 1), eos_token=end)
    except ValueError as error:
        raise CapabilityError(
            f"this model's tokenizer cannot be read for grammars ({_reason(str(error))})"
        ) from error


def _lark(text: str) -> str:
    """Return a grammar in Lark's notation; one in GBNF (`::=`) is translated."""
    if "::=" not in text:
        return text
    from llguidance.gbnf_to_lark import gbnf_to_lark

    try:
        translated = gbnf_to_lark(text)
    except Exception as error:  # the library raises bare Exception
        raise OptionError(f"grammar does not compile: {_reason(str(error))}; mend it") from error
    return translated


def _reason(message: str) -> str:
    """Return what matters of a message of the library's: the line that says "error:", else the first."""
    lines = message.strip().splitlines() or [""]
    said = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[0])
    return said.rstrip(".;: ")
