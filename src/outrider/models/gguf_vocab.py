"""Tokenizers from GGUF metadata: byte-level BPE ("gpt2") and SentencePiece BPE ("llama")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from outrider.errors import LoadError, UnsupportedModelError
from outrider.models.vocab import SpecialTokens, TextTokenizer, end_of_turn_ids

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_KEY = "tokenizer.ggml."
_ROLES = ("bos", "eos", "eot", "eom", "unknown", "padding")

_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_ENGLISH_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s|"
_CASED_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True, slots=True)
class _Split:
    """How a vocabulary cuts text before merging; no pattern means GPT-2's own."""

    pattern: str | None = None
    single_digits: bool = False
    compose: bool = False
    """Unicode NFC first."""
    whole_words: bool = False
    """A piece that is a token is taken as it is, without merging."""
    adds_bos: bool = False
    """What llama.cpp does where the file has no add_bos_token."""


_GPT2 = _Split()
_DIGITS = _Split(single_digits=True)
_LLAMA3 = _Split(
    _ENGLISH_SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _TAIL, whole_words=True, adds_bos=True
)
_QWEN2 = _Split(_ENGLISH_SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _TAIL, compose=True)
_TEKKEN = _Split(_CASED % ("", "") + r"\p{N}" + _CASED_TAIL, whole_words=True, adds_bos=True)
_O200K = _Split(_CASED % (_ENGLISH_SUFFIX + "?", _ENGLISH_SUFFIX + "?") + r"\p{N}{1,3}" + _CASED_TAIL)

_SPLITS: Mapping[str, _Split] = {
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "jais", "mpt"), _GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), _DIGITS),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), _LLAMA3),
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": replace(_QWEN2, compose=False),
    "tekken": _TEKKEN,
    "gpt-4o": _O200K,
}


def tokenizer_from_gguf(metadata: Mapping[str, Any]) -> TextTokenizer:
    """Return the tokenizer that a GGUF file describes.

    UnsupportedModelError for a tokenizer model, or a way of splitting text, without an implementation here;
    LoadError where the description is incomplete.
    """
    tokens: Sequence[str] | None = metadata.get(_KEY + "tokens")
    if not tokens:
        raise LoadError("the GGUF file holds no vocabulary (tokenizer.ggml.tokens)")
    types: Sequence[int] = metadata.get(_KEY + "token_type") or [1] * len(tokens)
    if len(types) != len(tokens):
        raise LoadError(f"the GGUF file gives {len(types)} token types for {len(tokens)} tokens")
    for role in _ROLES:
        token = metadata.get(f"{_KEY}{role}_token_id")
        if token is not None and token not in range(len(tokens)):
            raise LoadError(f"the GGUF file's {role}_token_id, {token}, is not in its vocabulary")
    model = metadata.get(_KEY + "model")
    if model == "gpt2":
        backend, adds_bos = _byte_level(metadata, tokens)
    elif model == "llama":
        backend, adds_bos = _sentence_piece(metadata, tokens, types), True
    else:
        raise UnsupportedModelError(f"GGUF tokenizer {model!r} is not supported, only 'gpt2' and 'llama' are")
    backend.add_special_tokens(
        [
            AddedToken(text, normalized=False)
            for text, kind in zip(tokens, types, strict=True)
            if kind == _CONTROL
        ]
    )
    backend.add_tokens(
        [
            AddedToken(text, normalized=False)
            for text, kind in zip(tokens, types, strict=True)
            if kind == _USER_DEFINED
        ]
    )
    _surround(backend, metadata, adds_bos)
    control = {
        text: token for token, (text, kind) in enumerate(zip(tokens, types, strict=True)) if kind == _CONTROL
    }
    ends = [metadata.get(f"{_KEY}{role}_token_id") for role in ("eos", "eot", "eom")]
    texts = {
        f"{role}_token": tokens[token]
        for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if (token := metadata.get(f"{_KEY}{key}_token_id")) is not None
    }
    special = SpecialTokens(texts, end_of_turn_ids(control, *ends))
    return TextTokenizer(backend, special, metadata.get("tokenizer.chat_template"))


def _byte_level(metadata: Mapping[str, Any], tokens: Sequence[str]) -> tuple[Backend, bool]:
    name = metadata.get(_KEY + "pre")
    if name is None or name == "default":
        raise UnsupportedModelError(
            "the GGUF file does not say how its vocabulary splits text (tokenizer.ggml.pre), so its prompts "
            "could come out wrong; convert the model again with a current llama.cpp"
        )
    if name not in _SPLITS:
        raise UnsupportedModelError(
            f"the GGUF file splits text in the way {name!r} (tokenizer.ggml.pre), which is not implemented; "
            f"known: {', '.join(_SPLITS)}"
        )
    split = _SPLITS[name]
    merges = [tuple(merge.split(" ", 1)) for merge in metadata.get(_KEY + "merges") or ()]
    vocabulary = {text: token for token, text in enumerate(tokens)}
    try:
        backend = Backend(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=split.whole_words))
    except Exception as error:  # the Rust side raises bare Exception
        raise LoadError(f"the GGUF file's merges do not fit its vocabulary: {error}") from error
    steps: list[pre_tokenizers.PreTokenizer] = []
    if split.single_digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    if split.pattern is not None:
        steps.append(pre_tokenizers.Split(Regex(split.pattern), behavior="isolated"))
    prefix = bool(metadata.get(_KEY + "add_space_prefix", False))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=split.pattern is None))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    if split.compose:
        backend.normalizer = normalizers.NFC()
    return backend, split.adds_bos


def _sentence_piece(metadata: Mapping[str, Any], tokens: Sequence[str], types: Sequence[int]) -> Backend:
    scores: Sequence[float] | None = metadata.get(_KEY + "scores")
    if scores is None or len(scores) != len(tokens):
        raise LoadError("the GGUF file's SentencePiece vocabulary lacks its scores (tokenizer.ggml.scores)")
    vocabulary = {text: token for token, text in enumerate(tokens)}
    unknown = metadata.get(_KEY + "unknown_token_id", types.index(_UNKNOWN) if _UNKNOWN in types else None)
    backend = Backend(
        models.BPE(
            vocab=vocabulary,
            merges=_merges_of(tokens, types, scores, vocabulary),
            unk_token=None if unknown is None else tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    prefix = bool(metadata.get(_KEY + "add_space_prefix", True))
    mark: list[normalizers.Normalizer] = [normalizers.Replace(" ", "▁")]
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), *mark] if prefix else mark)
    steps: list[decoders.Decoder] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefix:
        steps.append(decoders.Strip(" ", 1, 0))
    backend.decoder = decoders.Sequence(steps)
    return backend


def _merges_of(
    tokens: Sequence[str], types: Sequence[int], scores: Sequence[float], vocabulary: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Return the merges that make SentencePiece's choices: always the pair whose union scores highest.

    Pairs with the same union are equally good, so their order among themselves does not matter.
    """
    ranked = sorted((i for i, kind in enumerate(types) if kind == _NORMAL), key=lambda i: (-scores[i], i))
    return [
        (text[:cut], text[cut:])
        for text in (tokens[token] for token in ranked)
        for cut in range(1, len(text))
        if text[:cut] in vocabulary and text[cut:] in vocabulary
    ]


def _surround(backend: Backend, metadata: Mapping[str, Any], adds_bos: bool) -> None:
    """Put BOS before and EOS after an encoded text where the file says so."""
    bos, eos = metadata.get(_KEY + "bos_token_id"), metadata.get(_KEY + "eos_token_id")
    before = bos is not None and metadata.get(_KEY + "add_bos_token", adds_bos)
    after = eos is not None and metadata.get(_KEY + "add_eos_token", False)
    # Named by role, because a token's text may hold characters that the template gives a meaning.
    names = (["BOS"] if before else []) + ["$A"] + (["EOS"] if after else [])
    ids = [(name, token) for name, token in (("BOS", bos), ("EOS", eos)) if name in names]
    if ids:
        backend.post_processor = processors.TemplateProcessing(single=" ".join(names), special_tokens=ids)
