"""Where a run of tokens ends: end tokens, stop strings and lengths, whichever comes first in the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Stops:
    """Cuts runs of one sequence. Token by token: an end token or stop string first, then the length.

    Before `min_tokens` nothing ends the text: end tokens do not, and a stop string counts only where it
    begins after the text of the first `min_tokens` tokens. `text_of` decodes all tokens emitted so far; it is
    asked only where there are stop strings. `is_over` tells whether a run completes the text by itself, since
    a grammar lets nothing follow.
    """

    def __init__(
        self,
        end_tokens: frozenset[int],
        strings: Sequence[str],
        text_of: Callable[[Sequence[int]], str],
        min_tokens: int = 0,
        is_over: Callable[[Sequence[int]], bool] | None = None,
    ) -> None:
        self._end_tokens = end_tokens
        self._strings = tuple(strings)
        self._text_of = text_of
        self._min_tokens = min_tokens
        self._is_over = is_over
        self._count = 0
        self._emitted: list[int] = []
        self._searched = 0
        """Stop strings that begin before this character of the text were already looked for."""
        self.text_end: int | None = None
        """Where a stop string begins in the text, once one was found."""

    def cut(self, run: Sequence[int], room: int) -> tuple[int, str | None]:
        """Return how many tokens of `run` stand and why the sequence ends, None if it goes on.

        An end token and the token that completes a stop string are counted in. `room` is the most tokens that
        may still be emitted.
        """
        for index, token in enumerate(run[:room]):
            self._count += 1
            if self._strings:
                self._emitted.append(token)
            completed = self._completes_string()  # looked for first: a stop string is left out of the text
            ended = token in self._end_tokens and self._count > self._min_tokens
            over = self._is_over is not None and self._is_over(run[: index + 1])
            if completed or ended or over:
                return index + 1, "stop"
        if len(run) >= room:
            return room, "length"
        return len(run), None

    def _completes_string(self) -> bool:
        if not self._strings:
            return False
        if self._count < self._min_tokens:
            return False
        text = self._text_of(self._emitted)
        if self._count == self._min_tokens:
            # An unfinished character belongs to the tokens it began with.
            whole = text.rstrip("\ufffd")
            self._searched = len(whole) + (len(whole) < len(text))
            return False
        begins = [text.find(stop, self._searched) for stop in self._strings]
        found = [begin for begin in begins if begin >= 0]
        if found:
            self.text_end = min(found)
            return True
        longest = max(map(len, self._strings))
        # An unfinished character may still change the last characters of the text.
        self._searched = max(self._searched, len(text.rstrip("\ufffd")) - longest - 1, 0)
        return False
