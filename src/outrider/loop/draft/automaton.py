"""An online suffix automaton over token ids: where has the end of this text been seen before?"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import islice

ROOT = 0
NONE = -1
Place = tuple[int, int]
"""A state, and the length of its string that is meant."""

REFRESHED = 32
"""Most states whose last occurrence is brought up to date for one token."""
SEARCHED = 8
"""Most suffixes whose followers are looked at for one guess."""
SCANNED = 16
"""Most followers of one suffix that are compared by their last occurrence."""


class SuffixAutomaton:
    """The suffix automaton of a growing text (Blumer et al. 1985, built as text arrives).

    Every state stands for a set of substrings with the same end positions; `link` leads to the longest suffix
    with more of them. The state of the whole text occurs only at its end, so its link is the longest suffix
    that also occurs earlier: the match needs no cursor of its own. Positions count tokens, so `text[end]` is
    what followed an occurrence that ends at `end`.

    Time is amortised O(1) per token. Most states have a single successor, which is held in flat arrays; only
    states with more own a dict.

    Which occurrence: the end of the text is an occurrence of every state on the link path from the match to
    the root. When the next token arrives, the first `REFRESHED` states of that path learn it. The path is
    rarely longer, except where the text has repeated one period more than `REFRESHED` times; the states past
    the bound then keep an older occurrence. So an end given out is always that of a true earlier occurrence,
    and of the most recent one wherever no such run came between.
    """

    __slots__ = ("_ends", "_first_target", "_first_token", "_last", "_lengths", "_links", "_more", "text")

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self.text = array("i")
        self._lengths = array("i", [0])
        self._links = array("i", [NONE])
        self._ends = array("i", [0])
        self._first_token = array("i", [NONE])
        self._first_target = array("i", [NONE])
        self._more: list[dict[int, int] | None] = [None]
        self._last = ROOT
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self.text)

    @property
    def match_length(self) -> int:
        """Length of the longest suffix that also ends earlier; 0 if even the last token is new."""
        return self._lengths[max(self._links[self._last], ROOT)]

    @property
    def match_end(self) -> int:
        """Where that suffix last ended, short of the text's end: `text[match_end]` followed it."""
        return self._ends[max(self._links[self._last], ROOT)]

    def guesses(self, limit: int) -> list[tuple[int, int]]:
        """Return (length, end) of at most `limit` earlier occurrences, each followed by a token of its own.

        The most recent occurrence of the match comes first, then other followers of the match, the most
        recent first, then those of ever shorter suffixes. So that the time is bounded whatever the text, only
        `SEARCHED` suffixes are looked at, and of each only its first follower and the `SCANNED` newest ones.
        """
        state = max(self._links[self._last], ROOT)
        return self._followers(state, self._lengths[state], limit)

    @property
    def place(self) -> Place:
        """The end of the text, as the longest suffix that also ends earlier."""
        state = max(self._links[self._last], ROOT)
        return state, self._lengths[state]

    def follow(self, place: Place, token: int) -> Place:
        """Return the place after `token`: the longest suffix of what led there that the text holds."""
        state, length = place
        while True:
            target = self._target(state, token)
            if target != NONE:
                return target, length + 1
            if state == ROOT:
                return ROOT, 0
            state = self._links[state]
            length = min(length, self._lengths[state])

    def guesses_at(self, place: Place, limit: int) -> list[tuple[int, int]]:
        """Return what `guesses` would return if the text ended at `place`."""
        state, length = place
        if state == self._last:  # occurs only at the end, where nothing follows yet
            state = max(self._links[state], ROOT)
        return self._followers(state, length, limit)

    def _followers(self, state: int, length: int, limit: int) -> list[tuple[int, int]]:
        """Return (length, end) of occurrences of a state's strings and of their suffixes, by followers."""
        found: dict[int, tuple[int, int]] = {}
        for _ in range(SEARCHED):
            if state <= ROOT or len(found) >= limit:
                break
            end = self._ends[state]
            found.setdefault(self.text[end], (length, end))
            others = self._more[state]
            if others is not None:
                targets = [self._first_target[state], *islice(reversed(others.values()), SCANNED)]
                for end in sorted((self._ends[target] - 1 for target in targets), reverse=True):
                    found.setdefault(self.text[end], (length, end))
            state = self._links[state]
            length = min(length, self._lengths[state])
        return list(islice(found.values(), limit))

    def _target(self, state: int, token: int) -> int:
        """Return the state that `token` leads to, NONE where it was never seen there."""
        if self._first_token[state] == token:
            return self._first_target[state]
        others = self._more[state]
        return NONE if others is None else others.get(token, NONE)

    def continuation(self, end: int, count: int) -> array[int]:
        """Return the `count` tokens after `end`, a position before the text's end.

        Past the text's end the copy runs on into itself, so a text of period p goes on with period p.
        """
        assert 0 <= end < len(self.text)
        found = self.text[end : end + count]
        while len(found) < count:
            found.extend(found[: count - len(found)])
        return found

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens (0 or above) to the text."""
        text, lengths, links, ends = self.text, self._lengths, self._links, self._ends
        first_token, first_target, more = self._first_token, self._first_target, self._more
        last = self._last
        for token in tokens:
            self._refresh(last)
            text.append(token)
            new = len(lengths)
            lengths.append(len(text))
            ends.append(len(text))
            first_token.append(NONE)
            first_target.append(NONE)
            more.append(None)

            # Suffixes never seen before this token get their transition; stop at the first one that has it.
            state, target = last, NONE
            while state >= 0:
                if first_token[state] == token:
                    target = first_target[state]
                    break
                others = more[state]
                if others is not None:
                    target = others.setdefault(token, new)
                    if target != new:
                        break
                elif first_token[state] == NONE:
                    first_token[state], first_target[state] = token, new
                else:
                    more[state] = {token: new}
                state = links[state]
            last = new

            if state < 0:
                links.append(ROOT)
            elif lengths[target] == lengths[state] + 1:
                links.append(target)
            else:
                links.append(new + 1)
                self._split(state, token, target)
        self._last = last

    def _refresh(self, last: int) -> None:
        """Tell the suffixes of the text so far that they ended here, before the text goes on."""
        ends, links, here = self._ends, self._links, len(self.text)
        state, left = links[last], REFRESHED
        while state > ROOT and left:
            ends[state] = here
            state = links[state]
            left -= 1

    def _split(self, state: int, token: int, target: int) -> None:
        """Give the strings of `target` that end with state's longest one a state of their own, the newest."""
        links, more = self._links, self._more
        first_token, first_target = self._first_token, self._first_target
        clone, others = len(self._lengths), more[target]
        self._lengths.append(self._lengths[state] + 1)
        links.append(links[target])
        self._ends.append(self._ends[target])
        first_token.append(first_token[target])
        first_target.append(first_target[target])
        more.append(None if others is None else others.copy())
        links[target] = clone
        while state >= 0:
            others = more[state]
            if first_token[state] == token:
                if first_target[state] != target:
                    break
                first_target[state] = clone
            elif others is not None and others.get(token) == target:
                others[token] = clone
            else:
                break
            state = links[state]
