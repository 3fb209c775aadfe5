"""Stop strings whose characters take several tokens, and tokens that complete several stop strings."""

from __future__ import annotations

from outrider.loop.commit.stops import Stops


def test_a_stop_string_is_found_although_its_unfinished_bytes_looked_longer() -> None:
    """Byte by byte an emoji shows as one, two, three replacement characters and then as one character."""
    stops = Stops(frozenset(), ["😀"], lambda tokens: "\ufffd" * len(tokens) if len(tokens) < 4 else "😀")
    assert [stops.cut([token], 9) for token in range(4)] == [(1, None)] * 3 + [(1, "stop")]
    assert stops.text_end == 0


def test_of_two_stop_texts_that_one_token_completes_the_longer_one_is_cut_whole() -> None:
    """The one that begins first wins, whichever is named first."""
    for strings in (["c", "abc"], ["abc", "c"]):
        stops = Stops(frozenset(), strings, lambda tokens: "".join(chr(97 + token) for token in tokens))
        assert stops.cut([3, 0, 1, 2, 3], 9) == (4, "stop")
        assert stops.text_end == 1
