"""The suffix automaton as a guesser: what followed this place, or the end of it, before."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.loop.draft.automaton import Place, SuffixAutomaton
from outrider.loop.draft.base import Rows
from outrider.types import DraftTree

BUCKETS = (0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7, 7)
"""Match length to bucket; longer matches share the last one."""
LAST_BUCKET = 8
PRIOR = (0.0, 0.2, 0.5, 0.62, 0.68, 0.74, 0.78, 0.82, 0.92)
"""Chance that the first copied token comes true, by bucket."""
LATER_PRIORS = (0.12, 0.06)
"""Chance of the second follower, and of any later one."""
RANKS = 1 + len(LATER_PRIORS)


class CopiedText:
    """Guesses that what followed the longest known end of a place follows it again.

    A place need not have been in the text itself: after a token that another guesser named, the longest end
    of what led there is looked up (as LogitSpec does for the first token, arXiv 2507.01449). Its guesses are
    filed by the length of the match and by their rank.
    """

    observes = False
    priors = tuple(chance for first in PRIOR for chance in (first, *LATER_PRIORS))

    def __init__(self, followers: int) -> None:
        self._followers = followers

    def open(self, prompt: Sequence[int], tenant: str = "") -> SuffixAutomaton:
        """Index the prompt."""
        return SuffixAutomaton(prompt)

    def here(self, state: SuffixAutomaton) -> Place:
        """Return the end of the text."""
        return state.place

    def follow(self, state: SuffixAutomaton, place: Place, token: int) -> Place:
        """Return the place after one more token."""
        return state.follow(place, token)

    def named(self, state: SuffixAutomaton, place: Place) -> list[tuple[int, int]]:
        """Return followers of the longest end first, the most recent ones first."""
        text, rank, found = state.text, 0, []
        for length, end in state.guesses_at(place, self._followers):
            bucket = BUCKETS[length] if length < len(BUCKETS) else LAST_BUCKET
            found.append((text[end], RANKS * bucket + rank))
            if rank < RANKS - 1:
                rank += 1
        return found

    def observe(self, state: SuffixAutomaton, tree: DraftTree, rows: Rows) -> None:
        """Learn nothing."""

    def extend(self, state: SuffixAutomaton, token: int) -> None:
        """Index the token."""
        state.extend((token,))

    def settle(self, state: SuffixAutomaton) -> None:
        """Do nothing."""
