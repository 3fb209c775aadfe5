"""The suffix automaton as a guesser: what followed this place, or the end of it, before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.loop.draft.automaton import Place, SuffixAutomaton
from outrider.loop.draft.base import Rows
from outrider.loop.draft.guess import Guess, record
from outrider.loop.draft.rates import Rates
from outrider.types import DraftTree

BUCKETS = (0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7, 7)
"""Match length to bucket; longer matches share the last one."""
LAST_BUCKET = 8
PRIOR = (0.0, 0.2, 0.5, 0.62, 0.68, 0.74, 0.78, 0.82, 0.92)
"""Chance that the first copied token comes true, by bucket."""
LATER_PRIOR = 0.25
"""Chance of another follower once those before it are wrong."""


@dataclass(slots=True)
class CopiedState:
    """One sequence: the automaton over its committed tokens, and its record."""

    automaton: SuffixAutomaton
    rates: Rates = field(default_factory=Rates)


class CopiedText:
    """Guesses that what followed the longest known end of a place follows it again.

    A place need not have been in the text itself: after a token that another guesser named, the longest end
    of what led there is looked up (as LogitSpec does for the first token, arXiv 2507.01449).
    """

    observes = False

    def __init__(self, followers: int) -> None:
        self._followers = followers

    def open(self, prompt: Sequence[int]) -> CopiedState:
        """Index the prompt."""
        return CopiedState(SuffixAutomaton(prompt))

    def here(self, state: CopiedState) -> Place:
        """Return the end of the text."""
        return state.automaton.place

    def follow(self, state: CopiedState, place: Place, token: int) -> Place:
        """Return the place after one more token."""
        return state.automaton.follow(place, token)

    def guesses(self, state: CopiedState, place: Place) -> list[Guess]:
        """Return followers of the longest end first, the most recent ones first."""
        text = state.automaton.text
        found = []
        for rank, (length, end) in enumerate(state.automaton.guesses_at(place, self._followers)):
            bucket = BUCKETS[length] if length < len(BUCKETS) else LAST_BUCKET
            kind = (bucket, min(rank, 2))
            prior = LATER_PRIOR if rank else PRIOR[bucket]
            found.append(Guess(text[end], state.rates.rate(kind, prior), kind))
        return found

    def observe(self, state: CopiedState, tree: DraftTree, rows: Rows) -> None:
        """Learn nothing."""

    def extend(self, state: CopiedState, token: int, guesses: Sequence[Guess] | None = None) -> None:
        """Note which guesses were right, and index the token."""
        made = self.guesses(state, state.automaton.place) if guesses is None else guesses
        record(state.rates, made, token)
        state.automaton.extend((token,))

    def settle(self, state: CopiedState) -> None:
        """Do nothing."""
