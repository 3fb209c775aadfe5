"""What the target last found likely after a token, and after a pair of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.loop.draft.base import Rows
from outrider.loop.draft.guess import Guess, record
from outrider.loop.draft.rates import Rates
from outrider.types import DraftTree

Place = tuple[int, int]
"""The last two tokens; −1 before the text begins."""

Row = tuple[tuple[int, ...], int]
"""Successors, the likeliest first, and how sure the target was of the first one (an index of `PRIOR`)."""

MARGINS = (0.7, 1.6, 3.2)
"""Margins of the first successor over the second, in log probability, that part sure rows from others."""
COPIED = 4
"""How sure a row is that holds only what the prompt itself said next."""
MOST_SHARED = 200_000
"""Most contexts that are remembered across sequences; those that came first are forgotten first."""
PRIOR = {
    2: ((0.35, 0.3, 0.2), (0.5, 0.3, 0.2), (0.65, 0.3, 0.2), (0.85, 0.3, 0.2), (0.3, 0.2, 0.2)),
    1: ((0.2, 0.15, 0.1), (0.25, 0.15, 0.1), (0.3, 0.15, 0.1), (0.45, 0.15, 0.1), (0.12, 0.1, 0.1)),
}
"""By the tokens of context, how sure the row was, and the rank: chance that a successor comes next once those
before it are wrong."""


@dataclass(slots=True)
class RecentState:
    """One sequence: its last two tokens, its table, its record, and rows that wait for what was committed."""

    place: Place = (-1, -1)
    table: dict[Place | int, Row] = field(default_factory=dict)
    rates: Rates = field(default_factory=Rates)
    seen: list[tuple[Place, Row]] = field(default_factory=list)


class RecentSuccessors:
    """Guesses that what the target found likely after a token, it finds likely after it again.

    The table is filled from the target's own rows, those of rejected nodes too: they cost nothing, since the
    pass has worked them out (Token Recycling, arXiv 2408.08696). Unlike there, a row is also kept for each
    pair of tokens, which is asked first, and a successor's chance is learned from this sequence, by context,
    rank, and how sure the target was. The prompt's own pairs stand in until the target has said something.

    With `shared`, what was seen in other sequences is asked after the sequence's own, context by context.
    """

    observes = True

    def __init__(self, successors: int, *, shared: bool) -> None:
        self._successors = successors
        self._shared: dict[Place | int, Row] | None = {} if shared else None

    def open(self, prompt: Sequence[int]) -> RecentState:
        """Fill the table with what follows what in the prompt."""
        state = RecentState()
        for token in prompt:
            self._copy(state, token)
        return state

    def here(self, state: RecentState) -> Place:
        """Return the last two tokens of the committed text."""
        return state.place

    def follow(self, state: RecentState, place: Place, token: int) -> Place:
        """Return the place after one more token."""
        return place[1], token

    def guesses(self, state: RecentState, place: Place) -> list[Guess]:
        """Return the successors of the pair, then those of its last token alone; a few more than are kept."""
        found: list[Guess] = []
        named: set[int] = set()
        for context, key in ((2, place), (1, place[1])):
            for foreign, table in enumerate((state.table, self._shared)):
                row = table.get(key) if table else None
                if row is None:
                    continue
                tokens, sure = row
                for rank, token in enumerate(tokens):
                    if token not in named:
                        named.add(token)
                        rank = min(rank, 2)
                        kind = (context, foreign, sure, rank)
                        chance = state.rates.rate(kind, PRIOR[context][sure][rank])
                        found.append(Guess(token, chance, kind))
        return found[: self._successors + 2]

    def observe(self, state: RecentState, tree: DraftTree, rows: Rows) -> None:
        """Remember the rows; they enter the table once the record has been brought up to date."""
        places = [state.place]
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            places.append((places[parent + 1][1], token))
        for row, place in enumerate(places):
            likely = rows.likely(row, self._successors)
            if likely:
                margin = likely[1][1] if len(likely) > 1 else MARGINS[-1]
                sure = sum(margin >= bound for bound in MARGINS)
                state.seen.append((place, (tuple(token for token, _ in likely), sure)))

    def extend(self, state: RecentState, token: int, guesses: Sequence[Guess] | None = None) -> None:
        """Note which guesses were right."""
        record(state.rates, self.guesses(state, state.place) if guesses is None else guesses, token)
        state.place = state.place[1], token

    def settle(self, state: RecentState) -> None:
        """Take over the rows of the pass: not before its tokens are in, which they would have given away."""
        for place, row in state.seen:
            for table in (state.table, self._shared):
                if table is not None:
                    table[place] = row
                    table[place[1]] = row
        state.seen.clear()
        while self._shared and len(self._shared) > MOST_SHARED:
            del self._shared[next(iter(self._shared))]

    def _copy(self, state: RecentState, token: int) -> None:
        for key in (state.place, state.place[1]):
            state.table[key] = ((token,), COPIED)
        state.place = state.place[1], token
