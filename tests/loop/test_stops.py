"""Stop strings whose characters take several tokens."""

from __future__ import annotations

from outrider.loop.commit.stops import Stops


def test_a_stop_string_is_found_although_its_unfinished_bytes_looked_longer() -> None:
    """Byte by byte an emoji shows as one, two, three replacement characters and then as one character."""
    stops = Stops(frozenset(), ["😀"], lambda tokens: "\ufffd" * len(tokens) if len(tokens) < 4 else "😀")
    assert [stops.cut([token], 9) for token in range(4)] == [(1, None)] * 3 + [(1, "stop")]
    assert stops.text_end == 0
