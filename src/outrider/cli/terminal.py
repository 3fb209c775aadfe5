"""What the commands print for people: tokens in the colour of where they came from, and consoles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.text import Text

from outrider.engine.result import Origin

STYLES = {Origin.DRAFTED: "green", Origin.CORRECTED: "red", Origin.BONUS: "cyan", Origin.PLAIN: ""}
MARKS = {
    Origin.DRAFTED: ("[", "]"),
    Origin.CORRECTED: ("{", "}"),
    Origin.BONUS: ("<", ">"),
    Origin.PLAIN: ("", ""),
}
"""What stands around tokens where there is no colour."""

Span = tuple[str, Origin | None]


def console(*, stderr: bool = False) -> Console:
    """Return a console that leaves text as it is; colour only on a terminal, and not under NO_COLOR."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not made.is_terminal:
        made.width = 120  # a pipe has no width of its own, and tables should not be squeezed into 80
    return made


def has_colour(out: Console) -> bool:
    """Return whether what is printed there may carry colour."""
    return out.is_terminal and not out.no_color and out.color_system is not None


class OriginSpans:
    """Cuts streamed text into spans of one origin each.

    The text of a stream may lag behind its tokens (an unfinished character, a stop string that may still
    come true), so tokens only say which characters are whose; what is shown is always the streamed text.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._length = 0
        self._owners: deque[tuple[int, Origin]] = deque()

    def feed(self, tokens: Iterable[int], origins: Iterable[Origin], text: str) -> list[Span]:
        """Take a chunk's tokens with their origins and return its `text`, cut."""
        for token, origin in zip(tokens, origins, strict=True):
            self._tokens.append(token)
            more = len(self._decode(self._tokens)) - self._length
            self._length += more
            if more > 0:
                self._owners.append((more, origin))
            while more < 0 and self._owners:  # an unfinished character counted for more before it was whole
                length, owner = self._owners.pop()
                if length + more > 0:
                    self._owners.append((length + more, owner))
                more = min(0, length + more)
        return self._cut(text)

    def _cut(self, text: str) -> list[Span]:
        spans: list[Span] = []
        while text and self._owners:
            length, origin = self._owners.popleft()
            if length > len(text):
                self._owners.appendleft((length - len(text), origin))
            spans.append((text[:length], origin))
            text = text[length:]
        return [*spans, (text, None)] if text else spans


def paint(spans: Iterable[Span], *, colour: bool) -> Text:
    """Return spans as rich text: in colour, or with marks around runs of one origin."""
    painted = Text()
    runs: list[tuple[str, Origin | None]] = []
    for text, origin in spans:
        if runs and runs[-1][1] is origin:
            runs[-1] = (runs[-1][0] + text, origin)
        else:
            runs.append((text, origin))
    for text, origin in runs:
        before, after = ("", "") if colour or origin is None else MARKS[origin]
        painted.append(f"{before}{text}{after}", style=STYLES[origin] if colour and origin else "")
    return painted


def legend(*, colour: bool) -> Text:
    """Return the line that explains the colours or marks."""
    words = {
        Origin.DRAFTED: "drafted and kept",
        Origin.CORRECTED: "corrected by the target",
        Origin.BONUS: "bonus after a kept draft",
        Origin.PLAIN: "without a draft",
    }
    line = Text()
    for origin, meaning in words.items():
        line.append("  " if line else "")
        line.append_text(paint([(meaning, origin)], colour=colour))
    return line
