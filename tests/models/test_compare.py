from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from outrider.errors import VocabularyError
from outrider.models.compare import check_same_vocabulary


class Words:
    """A tokenizer of which only the vocabulary matters."""

    eos_ids: frozenset[int] = frozenset()
    has_chat_template = False

    def __init__(self, *texts: str, **added: int) -> None:
        self.table = {text: token for token, text in enumerate(texts)} | added

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return []

    def decode(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
        return ""

    def chat(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        return []

    def vocabulary(self) -> dict[str, int]:
        return self.table


def test_equal_vocabularies_pass_whatever_the_padding_of_the_models() -> None:
    words = Words("a", "b", "c")
    check_same_vocabulary(words, Words("a", "b", "c"), 3, 3)
    check_same_vocabulary(words, words, 151936, 151646)
    check_same_vocabulary(words, words, 3, 64)


def test_the_first_differing_id_is_named_with_both_texts() -> None:
    with pytest.raises(VocabularyError, match="id 1 is 'b' for the target and 'x' for the draft"):
        check_same_vocabulary(Words("a", "b", "c"), Words("a", "x", "y"), 3, 3)


def test_the_same_tokens_in_another_order_are_a_difference() -> None:
    with pytest.raises(VocabularyError, match="id 1 is 'b' for the target and 'c' for the draft"):
        check_same_vocabulary(Words("a", "b", "c"), Words("a", "c", "b"), 3, 3)


def test_tokens_added_past_the_end_of_the_other_are_let_pass() -> None:
    check_same_vocabulary(Words("a", "b", tool=2), Words("a", "b"), 4, 2)
    check_same_vocabulary(Words("a", "b"), Words("a", "b", tool=5, think=6), 8, 8)


def test_a_hole_inside_the_other_vocabulary_is_a_difference() -> None:
    with pytest.raises(VocabularyError, match="id 1 is 'b' for the target and no token for the draft"):
        check_same_vocabulary(Words("a", "b", "c"), Words("a", c=2), 3, 3)
    with pytest.raises(VocabularyError, match="id 1 is no token for the target and 'b' for the draft"):
        check_same_vocabulary(Words("a", c=2), Words("a", "b", "c"), 3, 3)


def test_two_texts_for_one_id_past_the_end_are_a_difference() -> None:
    with pytest.raises(VocabularyError, match="id 2 is 'tool' for the target and 'think' for the draft"):
        check_same_vocabulary(Words("a", "b", tool=2), Words("a", "b", think=2), 4, 4)


def test_a_model_with_too_few_output_rows_has_the_wrong_tokenizer() -> None:
    with pytest.raises(VocabularyError, match="draft model has only 2 output rows"):
        check_same_vocabulary(Words("a", "b", "c"), Words("a", "b", "c"), 3, 2)
