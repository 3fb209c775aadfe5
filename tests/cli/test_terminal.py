from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from outrider.cli.terminal import OriginSpans, has_colour, legend, paint
from outrider.engine.result import Origin

ORIGINS = list(Origin)


def decode(tokens: list[int] | tuple[int, ...]) -> str:
    return bytes(tokens).decode("utf-8", "replace")


def test_spans_give_each_token_its_origin() -> None:
    spans = OriginSpans(decode)
    origins = (Origin.DRAFTED, Origin.DRAFTED, Origin.BONUS)
    assert spans.feed(b"abc", origins, "abc") == [
        ("a", Origin.DRAFTED),
        ("b", Origin.DRAFTED),
        ("c", Origin.BONUS),
    ]


def test_spans_wait_for_text_that_lags_behind_its_tokens() -> None:
    spans = OriginSpans(decode)
    assert spans.feed(b"ab", (Origin.PLAIN, Origin.DRAFTED), "") == []
    assert spans.feed(b"c", (Origin.BONUS,), "abc") == [
        ("a", Origin.PLAIN),
        ("b", Origin.DRAFTED),
        ("c", Origin.BONUS),
    ]


@given(st.text(max_size=12), st.data())
def test_spans_join_to_the_streamed_text_however_it_is_cut(text: str, data: st.DataObject) -> None:
    """Characters of several bytes arrive over several tokens, and the stream holds them back."""
    tokens = text.encode("utf-8")
    spans = OriginSpans(decode)
    shown = streamed = ""
    at = 0
    while at < len(tokens):
        step = data.draw(st.integers(1, 4))
        chunk = tokens[at : at + step]
        at += step
        ready = decode(tokens[:at]) if at >= len(tokens) else tokens[:at].decode("utf-8", "ignore")
        piece, streamed = ready[len(streamed) :], ready
        origins = [ORIGINS[i % 4] for i in range(len(chunk))]
        cut = spans.feed(chunk, origins, piece)
        assert all(origin is not None for _, origin in cut)
        shown += "".join(part for part, _ in cut)
    assert shown == text


def test_paint_marks_runs_without_colour_and_styles_them_with_it() -> None:
    spans = [("a", Origin.DRAFTED), ("b", Origin.DRAFTED), ("c", Origin.CORRECTED), ("d", Origin.PLAIN)]
    assert paint(spans, colour=False).plain == "[ab]{c}d"
    coloured = paint(spans, colour=True)
    assert coloured.plain == "abcd"
    assert [str(span.style) for span in coloured.spans] == ["green", "red"]


def test_the_legend_explains_every_origin() -> None:
    assert legend(colour=False).plain.count("  ") == len(Origin) - 1


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert has_colour(Console(file=io.StringIO(), force_terminal=True))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colour(Console(file=io.StringIO(), force_terminal=True))
    assert not has_colour(Console(file=io.StringIO()))
