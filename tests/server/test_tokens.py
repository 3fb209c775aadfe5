"""The bytes of single tokens put together are the bytes of the text."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from outrider.models.vocab import SpecialTokens, TextTokenizer
from outrider.server.tokens import Offsets, TokenTexts
from served import byte_tokenizer

TEXT = "a \u00e9\u4f60 \U0001f600\n"


def pieces(unknown: str = "<unk>") -> TextTokenizer:
    """A vocabulary with a sign for spaces, and bytes for what it does not know."""
    words = [unknown, *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "a", "\u2581a"]
    vocabulary = {word: index for index, word in enumerate(words)}
    backend = Tokenizer(models.BPE(vocabulary, [("\u2581", "a")], unk_token=unknown, byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return TextTokenizer(backend, SpecialTokens())


def test_bytes_of_tokens_make_the_text_in_both_kinds_of_vocabularies() -> None:
    for tokenizer in (byte_tokenizer(), pieces()):
        texts = TokenTexts(tokenizer)
        tokens = tokenizer.encode(TEXT)
        assert len(tokens) > len(TEXT)
        assert b"".join(map(texts.bytes_of, tokens)) == TEXT.encode()
        assert tokenizer.decode(tokens) == TEXT


def test_a_part_of_a_character_is_written_as_bytes_and_what_is_no_token_as_nothing() -> None:
    texts = TokenTexts(byte_tokenizer())
    first = byte_tokenizer().encode("\u00e9")[0]
    assert texts.text_of(first) == r"bytes:\xc3"
    assert texts.bytes_of(999) == b""
    assert texts.text_of(256) == "<|end|>"
    assert texts.shown_bytes_of(256) == b""


def test_offsets_count_characters_and_begin_where_the_last_one_ended() -> None:
    offsets, texts, tokenizer = Offsets(), TokenTexts(byte_tokenizer()), byte_tokenizer()
    found = [offsets.next(texts.bytes_of(token)) for token in tokenizer.encode("a\u00e9b\u4f60c")]
    assert found == [0, 1, 1, 2, 3, 3, 3, 4]
