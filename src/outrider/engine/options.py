"""What of a request's options can only be checked, or worked out, with the model at hand."""

from __future__ import annotations

from outrider.errors import OptionError
from outrider.models.base import Tokenizer
from outrider.sampling.params import SamplingParams


def check_options(params: SamplingParams, vocab_size: int, room: int) -> None:
    """Raise OptionError where an id lies outside the vocabulary or `min_tokens` does not fit into `room`."""
    named = {
        "logit_bias": [token for token, _ in params.logit_bias],  # type: ignore[misc]
        "allowed_tokens": params.allowed_tokens or (),
        "banned_tokens": params.banned_tokens,
        "stop_token_ids": params.stop_token_ids,
    }
    for option, ids in named.items():
        bad = next((token for token in ids if token >= vocab_size), None)
        if bad is not None:
            raise OptionError(
                f"{option} names token {bad}, which is outside this model's vocabulary "
                f"(0 to {vocab_size - 1}); take it out"
            )
    if params.min_tokens > room:
        raise OptionError(
            f"min_tokens={params.min_tokens} cannot be reached: after the prompt the context has room for "
            f"{room} more; lower it or shorten the prompt"
        )


def banned_sequences(params: SamplingParams, tokenizer: Tokenizer) -> list[tuple[int, ...]]:
    """Return the banned words as tokens, each as it is written at the beginning of a text and after a space.

    OptionError for a word that the tokenizer makes no tokens of.
    """
    found: list[tuple[int, ...]] = []
    for word in params.banned_words:
        spellings = [tuple(tokenizer.encode(text, special=False)) for text in (word, f" {word}")]
        if not all(spellings):
            raise OptionError(f"banned_words holds {word!r}, which has no tokens in this model; take it out")
        found += spellings
    return list(dict.fromkeys(found))
