"""Tokens to text while they come: nothing is shown that a later token could still change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

UNFINISHED = "\ufffd"


class TextStream:
    """Decodes a growing run of tokens piece by piece.

    Decoding is done over a short window that begins at a token whose text is already out, because a token's
    text depends on the ones before it (leading spaces, characters spread over several tokens).
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self.decode = decode
        self._tokens: list[int] = []
        self._window = 0
        self._out = 0
        self._text = ""

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def text(self) -> str:
        """All text so far."""
        return self._text

    def feed(self, tokens: Sequence[int], *, last: bool = False) -> str:
        """Add tokens, return the new text; an unfinished character is held back, unless it is the last."""
        self._tokens.extend(tokens)
        before = self.decode(self._tokens[self._window : self._out])
        after = self.decode(self._tokens[self._window :])
        if not last and after.endswith(UNFINISHED):
            return ""
        piece = after[len(before) :]
        # A window of hidden tokens only would lose the space of the word that follows. One statement, so that
        # an interrupt finds either the old state or the new one.
        window = self._out if piece else self._window
        self._window, self._out, self._text = window, len(self._tokens), self._text + piece
        return piece


class StopGuard:
    """Holds back text that may turn out to be the beginning of a stop string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held = ""

    def feed(self, text: str, *, last: bool = False) -> str:
        """Return what may be shown now; when `last`, everything held."""
        self._held += text
        keep = 0 if last else self._risky()
        shown, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return shown

    def _risky(self) -> int:
        """Return the length of the longest end of the held text that begins some stop string."""
        longest = max((len(stop) for stop in self._stops), default=0)
        for size in range(min(longest - 1, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-size:]) for stop in self._stops):
                return size
        return 0
