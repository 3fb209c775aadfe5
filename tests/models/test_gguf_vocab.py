from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest

from outrider.engine.grammar import Grammars
from outrider.errors import LoadError, UnsupportedModelError
from outrider.models.gguf_vocab import tokenizer_from_gguf

PIECES = ["▁t", "he", "▁the", "in", "▁a", "on", "▁▁", "▁▁▁▁", "▁w", "or", "▁wor", "ld", "ll", "hell", "hello"]
LETTERS = "▁etaoinshrldw"


def byte_level_metadata(byte_level: Any, **changes: Any) -> dict[str, Any]:
    tokens = [byte_level.id_to_token(token) for token in range(byte_level.get_vocab_size())]
    special = {"<s>": 3, "</s>": 3, "<|im_end|>": 3, "<extra_0>": 4}
    values = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tokens,
        "token_type": [special.get(token, 1) for token in tokens],
        "merges": ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġw o", "r l"],
        "bos_token_id": 0,
        "eos_token_id": 1,
        **changes,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in values.items() if value is not None}


def sentence_piece_metadata(**changes: Any) -> dict[str, Any]:
    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *PIECES,
        *LETTERS,
        "<tool>",
    ]
    values = {
        "model": "llama",
        "tokens": tokens,
        "token_type": [2, 3, 3] + [6] * 256 + [1] * (len(PIECES) + len(LETTERS)) + [4],
        "scores": [0.0] * 259 + [-float(rank) for rank in range(len(PIECES) + len(LETTERS))] + [-1000.0],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
        **changes,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in values.items() if value is not None}


def pieces(text: str, metadata: dict[str, Any]) -> list[int]:
    """Tokenise as SentencePiece does: join the pair whose union scores highest, the leftmost first."""
    tokens, scores = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"]
    ids = {token: index for index, token in enumerate(tokens) if index >= 259}
    parts = list(text.replace(" ", "▁"))
    while True:
        joined = [(-scores[ids[a + b]], at) for at, (a, b) in enumerate(pairwise(parts)) if a + b in ids]
        if not joined:
            break
        at = min(joined)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    found: list[int] = []
    for part in parts:
        found += [ids[part]] if part in ids else [3 + byte for byte in part.encode()]
    return found


@pytest.mark.parametrize("prefix", [True, False])
def test_sentence_piece_vocabularies_join_the_best_pair_first(prefix: bool) -> None:
    metadata = sentence_piece_metadata(add_space_prefix=prefix)
    tokenizer = tokenizer_from_gguf(metadata)
    generator = random.Random(0)
    texts = ["hello world", "  the  thing", "héllo 日本", "and\nthe"]
    texts += ["".join(generator.choice("thelo wrand  ") for _ in range(30)) for _ in range(100)]
    for text in texts:
        expected = pieces(" " + text if prefix else text, metadata)
        assert tokenizer.encode(text) == [1, *expected]
        assert tokenizer.decode(expected) == text
    assert tokenizer.encode("") == [1]


def test_byte_level_vocabularies_encode_like_the_tokenizer_they_came_from(byte_level: Any) -> None:
    tokenizer = tokenizer_from_gguf(byte_level_metadata(byte_level))
    for text in ["hello world", "", "  two\n\n ", "日本 😀", "</s>hello", "it's 12345"]:
        ids = byte_level.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text) == ids
        assert tokenizer.decode(ids, skip_special=False) == text
    with_bos = tokenizer_from_gguf(byte_level_metadata(byte_level, add_bos_token=True, add_eos_token=True))
    assert with_bos.encode("hello") == [0, *byte_level.encode("hello", add_special_tokens=False).ids, 1]
    assert with_bos.encode("hello", special=False) == byte_level.encode("hello", add_special_tokens=False).ids


def test_control_tokens_end_turns_and_user_defined_ones_stay_whole(byte_level: Any) -> None:
    tokenizer = tokenizer_from_gguf(byte_level_metadata(byte_level, eot_token_id=5))
    assert tokenizer.eos_ids == {1, 5, 299}
    extra = byte_level.token_to_id("<extra_0>")
    assert tokenizer.encode("<extra_0>") == [extra]
    assert tokenizer.decode([extra, 0]) == "<extra_0>"
    assert len(tokenizer.encode("<extra_1>")) > 1


@pytest.mark.parametrize(
    ("pre", "text", "parts"),
    [
        ("gpt-2", "abc 12345  x", ["abc", "Ġ12345", "Ġ", "Ġx"]),
        ("smollm", "abc 123", ["abc", "Ġ", "1", "2", "3"]),
        ("llama-bpe", "abc 12345\n\n x", ["abc", "Ġ", "123", "45", "ĊĊ", "Ġx"]),
        ("qwen2", "DON'T 12", ["DON", "'T", "Ġ", "1", "2"]),
        ("tekken", "camelCase//\n1", ["camel", "Case", "//Ċ", "1"]),
        ("gpt-4o", "HTTPServer's 1234", ["HTTPServer's", "Ġ", "123", "4"]),
    ],
)
def test_text_is_cut_as_each_vocabulary_learned_it(
    pre: str, text: str, parts: list[str], byte_level: Any
) -> None:
    tokenizer = tokenizer_from_gguf(byte_level_metadata(byte_level, pre=pre))
    cut = tokenizer.backend.pre_tokenizer.pre_tokenize_str(text)
    assert [part for part, _ in cut] == parts


def test_whole_words_of_a_llama3_vocabulary_need_no_merges(byte_level: Any) -> None:
    metadata = byte_level_metadata(byte_level, pre="llama-bpe", merges=["h e"])
    hello = byte_level.token_to_id("hello")
    assert tokenizer_from_gguf(metadata).encode("hello") == [0, hello]
    assert tokenizer_from_gguf({**metadata, "tokenizer.ggml.pre": "gpt-2"}).encode("hello") != [hello]


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"pre": "klingon"}, UnsupportedModelError, "klingon"),
        ({"pre": None}, UnsupportedModelError, "does not say how"),
        ({"pre": "default"}, UnsupportedModelError, "does not say how"),
        ({"model": "bert"}, UnsupportedModelError, "'bert'"),
        ({"tokens": None}, LoadError, "no vocabulary"),
        ({"token_type": [1, 1]}, LoadError, "2 token types for 300 tokens"),
        ({"merges": ["zz yy"]}, LoadError, "merges"),
        ({"model": "llama"}, LoadError, "scores"),
        ({"eos_token_id": 300}, LoadError, "eos_token_id, 300, is not in its vocabulary"),
    ],
    ids=str,
)
def test_descriptions_that_cannot_be_followed_are_refused(
    changes: dict[str, Any], error: type[LoadError], says: str, byte_level: Any
) -> None:
    with pytest.raises(error, match=says):
        tokenizer_from_gguf(byte_level_metadata(byte_level, **changes))


@pytest.mark.parametrize("kind", ["byte level", "sentence piece", "sentence piece, prefix"])
def test_a_grammar_reads_each_vocabulary_as_it_writes_text(kind: str, byte_level: Any) -> None:
    if kind == "byte level":
        tokenizer = tokenizer_from_gguf(byte_level_metadata(byte_level))
    else:
        tokenizer = tokenizer_from_gguf(sentence_piece_metadata(add_space_prefix=kind.endswith("prefix")))
    grammars = Grammars(tokenizer, len(tokenizer.vocabulary()))
    for text in ("hello world", "in the  hell\n", "naïve 日本 <t", '{"a": [1, 2]}'):
        tokens = tokenizer.encode(text, special=False)
        # The space in front of the text is one that `decode` takes away again.
        written = f" {text}" if kind.endswith("prefix") else text
        constraint = grammars.constraint("choice", json.dumps([written]), [])
        assert constraint.accepts(tokens) == len(tokens)
        assert constraint.is_over(tokens)
        assert not constraint.is_over(tokens[:-1])
        assert constraint.accepts([*tokens[:-1], (tokens[-1] + 1) % 200]) == len(tokens) - 1
    end = next(iter(tokenizer.eos_ids))
    constraint = grammars.constraint("regex", r"(?s:.*)", [end])
    assert constraint.accepts([end]) == 1
    control = tokenizer.vocabulary()["<s>"]
    assert constraint.accepts([control]) == 0
