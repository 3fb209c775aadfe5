"""What the target last found likely after a token, and after a pair of tokens."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.loop.draft.base import Rows
from outrider.loop.draft.remembered import ByTenant
from outrider.types import DraftTree

Place = tuple[int, int]
"""The last two tokens; −1 before the text begins."""

Row = tuple[tuple[int, int], ...]
"""Successors, the likeliest first, each with its grade (an index of `PRIORS`)."""

BOUNDS = (-3.2, -1.6, -0.7, 0.0, 0.7, 1.6, 3.2)
"""Bounds between grades: how many times less likely than the best other one, in log probability. Below zero
are first successors, by how much more likely they were than the second.
"""
COPIED = len(BOUNDS) + 1
"""Grade of what only the prompt itself said next."""
GRADES = COPIED + 1
MOST_SHARED = 200_000
"""Most contexts that are remembered across a tenant's sequences; the first to come are the first to go."""
PAIR = (0.85, 0.75, 0.6, 0.5, 0.15, 0.07, 0.04, 0.02, 0.6)
SINGLE = (0.3, 0.2, 0.2, 0.12, 0.1, 0.06, 0.04, 0.03, 0.17)
PAIR_ELSEWHERE = (0.5, 0.35, 0.25, 0.12, 0.08, 0.05, 0.04, 0.02, 0.0)
SINGLE_ELSEWHERE = (0.12, 0.07, 0.06, 0.05, 0.05, 0.05, 0.04, 0.03, 0.0)
"""By grade, for rows after the same pair of tokens or the same token, of this sequence or only of others:
chance that a successor comes next."""


@dataclass(slots=True)
class RecentState:
    """One sequence: its last two tokens, its table, and rows that wait for what was committed."""

    place: Place = (-1, -1)
    table: dict[Place | int, Row] = field(default_factory=dict)
    seen: list[tuple[Place, Row]] = field(default_factory=list)
    shared: dict[Place | int, Row] = field(default_factory=dict)
    """The table of all sequences of its tenant; its own one, always empty, where nothing is shared."""


class RecentSuccessors:
    """Guesses that what the target found likely after a token, it finds likely after it again.

    The table is filled from the target's own rows, those of rejected nodes too: they cost nothing, since the
    pass has worked them out (Token Recycling, arXiv 2408.08696). Unlike there, a row is also kept for each
    pair of tokens, which is asked first, and guesses are filed by context and by how likely the target found
    them, so that their chances can be learned. The prompt's own pairs stand in until the target has said
    something.

    With `shared`, what was seen in other sequences of the same tenant is asked after the sequence's own,
    context by context.
    """

    observes = True
    priors = (*PAIR, *PAIR_ELSEWHERE, *SINGLE, *SINGLE_ELSEWHERE)

    def __init__(self, successors: int, *, shared: bool) -> None:
        self._successors = successors
        self._shared: ByTenant[dict[Place | int, Row]] = ByTenant(dict)
        self._shares = shared

    def open(self, prompt: Sequence[int], tenant: str = "") -> RecentState:
        """Fill the table with what follows what in the prompt."""
        state = RecentState()
        if self._shares:
            state.shared = self._shared.of(tenant)
        table, before, last = state.table, -1, -1
        for token in prompt:
            table[before, last] = table[last] = ((token, COPIED),)
            before, last = last, token
        state.place = before, last
        return state

    def here(self, state: RecentState) -> Place:
        """Return the last two tokens of the committed text."""
        return state.place

    def follow(self, state: RecentState, place: Place, token: int) -> Place:
        """Return the place after one more token."""
        return place[1], token

    def named(self, state: RecentState, place: Place) -> list[tuple[int, int]]:
        """Return the successors of the pair, then those of its last token alone; a few more than are kept."""
        found: dict[int, int] = {}
        own, shared, last = state.table, state.shared, place[1]
        rows = own.get(place), shared.get(place), own.get(last), shared.get(last)
        base, most = 0, self._successors + 2
        for row in rows:
            if row is not None:
                for token, grade in row:
                    if token not in found:
                        found[token] = base + grade
                if len(found) >= most:
                    break
            base += GRADES
        return list(found.items())[:most]

    def observe(self, state: RecentState, tree: DraftTree, rows: Rows) -> None:
        """Remember the rows; they enter the table once the record has been brought up to date."""
        places = [state.place]
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            places.append((places[parent + 1][1], token))
        for index, place in enumerate(places):
            likely = rows.likely(index, self._successors)
            if likely:
                margin = likely[1][1] if len(likely) > 1 else BOUNDS[-1]
                first = likely[0][0], bisect(BOUNDS, -margin)
                row = (first, *((token, bisect(BOUNDS, far)) for token, far in likely[1:]))
                state.seen.append((place, row))

    def extend(self, state: RecentState, token: int) -> None:
        """Move on to the token."""
        state.place = state.place[1], token

    def settle(self, state: RecentState) -> None:
        """Take over the rows of the pass: not before its tokens are in, which they would have given away."""
        tables = (state.table, state.shared) if self._shares else (state.table,)
        for place, row in state.seen:
            for table in tables:
                table[place] = row
                table[place[1]] = row
        state.seen.clear()
        while len(state.shared) > MOST_SHARED:
            del state.shared[next(iter(state.shared))]
