"""Do two models speak the same tokens? A draft model's ids must mean what the target's ids mean."""

from __future__ import annotations

from outrider.errors import VocabularyError
from outrider.models.base import Tokenizer


def check_same_vocabulary(target: Tokenizer, draft: Tokenizer, target_vocab: int, draft_vocab: int) -> None:
    """Check that every id that both models can emit stands for the same text in both tokenizers.

    `target_vocab` and `draft_vocab` are the numbers of rows of the models' output layers. Models of one
    family often pad them differently, and later members add special tokens at the end, so ids that only one
    of the two tokenizers knows are let pass where they lie past the last id of the other: such a token is
    never drafted, or never accepted, and the result stays exact either way. Anything else is a
    VocabularyError that names the first id on which they differ, with both texts.
    """
    ours, theirs = _by_id(target), _by_id(draft)
    shared = min(max(ours, default=-1), max(theirs, default=-1))
    for token in sorted(ours.keys() | theirs.keys()):
        own, other = ours.get(token), theirs.get(token)
        if own == other or (token > shared and (own is None or other is None)):
            continue
        raise VocabularyError(
            f"draft and target do not speak the same tokens: id {token} is {_shown(own)} for the target "
            f"and {_shown(other)} for the draft; use a draft model of the target's own family"
        )
    largest = max((token for token in theirs if token in ours), default=-1)
    if largest >= min(target_vocab, draft_vocab):
        short, rows = ("target", target_vocab) if target_vocab <= draft_vocab else ("draft", draft_vocab)
        raise VocabularyError(
            f"both tokenizers know id {largest}, but the {short} model has only {rows} output rows; "
            "one of the two came with the wrong tokenizer"
        )


def _by_id(tokenizer: Tokenizer) -> dict[int, str]:
    return {token: text for text, token in tokenizer.vocabulary().items()}


def _shown(text: str | None) -> str:
    return "no token" if text is None else repr(text)
