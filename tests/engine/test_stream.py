"""Text that comes piece by piece: unfinished characters wait, and nothing is lost at the end."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import VOCAB, RandomTrees, run
from outrider.engine.engine import Engine
from outrider.engine.live import Stream
from outrider.engine.stream import TextStream
from outrider.models.base import LoadedModel
from outrider.models.toy import ToyTarget, ToyTokenizer
from outrider.sampling.params import SamplingParams

PIECES = ["▁", "▁a", "b", "<end>", "\xe6", "\x97", "\xa5", "▁c"]
"""Token texts: words whose leading space shows only inside a text, a hidden token, the bytes of 日."""


def decode(tokens: Sequence[int]) -> str:
    """Decode as SentencePiece does: hidden tokens left out, bytes joined, the first space dropped."""
    text = "".join(PIECES[token] for token in tokens if PIECES[token] != "<end>").replace("▁", " ")
    raw = b"".join(letter.encode("latin-1") for letter in text)
    return raw.decode("utf-8", errors="replace").removeprefix(" ")


class Pieces(ToyTokenizer):
    def decode(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
        return decode(tokens)


@given(tokens=st.lists(st.integers(0, len(PIECES) - 1), max_size=12), cuts=st.randoms(use_true_random=False))
def test_pieces_join_to_the_text_of_all_tokens_however_they_come(tokens: list[int], cuts) -> None:  # type: ignore[no-untyped-def]
    stream, shown, start = TextStream(decode), "", 0
    while start < len(tokens):
        end = start + cuts.randint(1, 3)
        shown += stream.feed(tokens[start:end])
        start = end
        assert not shown.endswith("\ufffd"), "an unfinished character is held back"
    shown += stream.feed([], last=True)
    assert shown == stream.text == decode(tokens)


def test_the_bytes_of_an_unfinished_character_are_shown_at_the_end_and_not_before() -> None:
    stream = TextStream(decode)
    assert stream.feed([2]) == "b"
    assert stream.feed([4]) == stream.feed([5]) == ""
    assert stream.feed([6]) == "日"
    assert stream.feed([4]) == ""
    assert stream.feed([], last=True) == "\ufffd"


@given(
    seed=st.integers(0, 10**6),
    stops=st.lists(st.sampled_from(["日", "b", " a", "a b", "\ufffdb", "  "]), max_size=2),
)
@example(seed=974602, stops=["\ufffdb"])  # a hidden token was shown with the text before it, and stayed
@settings(max_examples=60, deadline=None)
def test_stop_strings_cut_characters_of_many_tokens_and_tokens_alike(seed: int, stops: list[str]) -> None:
    target = ToyTarget(VOCAB, seed=2, zeros=0.0)
    model = LoadedModel("toy", target, Pieces(VOCAB))
    params = SamplingParams(temperature=1.5, seed=seed, max_tokens=30, stop=tuple(stops))
    free = SamplingParams(temperature=1.5, seed=seed, max_tokens=30)
    [whole] = run(model, RandomTrees(0), [[1, 2]], free, budget=0)
    [result] = run(model, RandomTrees(seed), [[1, 2]], params, budget=6)
    # Token by token: the first one that completes a stop string ends the text where the string begins.
    for count in range(31):
        text = decode(whole.token_ids[:count])
        begins = [text.find(stop) for stop in stops if stop in text]
        if begins:
            text, reason = text[: min(begins)], "stop"
            break
    else:
        text, reason = decode(whole.token_ids), "length"
    assert (result.text, result.finish_reason) == (text, reason)
    assert list(result.token_ids) == list(whole.token_ids[: len(result.token_ids)])
    if reason == "stop":  # the fewest tokens that cover the text, unfinished characters not counted
        covered = [
            len(decode(result.token_ids[:n]).rstrip("\ufffd")) for n in range(len(result.token_ids) + 1)
        ]
        assert covered[-1] >= len(text)
        assert all(length < len(text) for length in covered[:-1])


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_the_chunks_of_a_stream_join_to_the_text_of_its_result(seed: int) -> None:
    """A stray byte may change how earlier bytes read; what was shown stands."""
    model = LoadedModel("toy", ToyTarget(VOCAB, seed=2, zeros=0.0), Pieces(VOCAB))
    engine = Engine(model, RandomTrees(seed), drafter_name="random")
    params = SamplingParams(temperature=1.5, seed=seed, max_tokens=30)
    with Stream(engine, engine.submit([1, 2], params)) as stream:
        shown = "".join(chunk.text for chunk in stream)
        assert shown == stream.close().text
