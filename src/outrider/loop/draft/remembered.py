"""What a tenant's earlier texts said: a bounded store of past outputs that suffixes are looked up in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from outrider.loop.draft.automaton import ROOT, Place, SuffixAutomaton

BETWEEN = 2**31 - 1
"""Stands between two texts, where no token does."""
LOOKED_BACK = 64
"""Tokens that are followed anew once a part of the store was dropped."""
TENANTS = 256
"""Most tenants of whom something is kept; those not heard of for longest are forgotten."""

Kept = TypeVar("Kept")


class ByTenant(Generic[Kept]):
    """Something of each tenant, made when it is first asked for; tenants never see each other's."""

    def __init__(self, make: Callable[[], Kept]) -> None:
        self._make = make
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, tenant: str) -> Kept:
        """Return what there is of a tenant."""
        if tenant not in self._kept:
            self._kept[tenant] = self._make()
            while len(self._kept) > TENANTS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(tenant)
        return self._kept[tenant]


class PastTexts:
    """The newest texts of one tenant, `most` tokens of them at most, in two parts.

    Once the younger part holds half of that, the older one is dropped and the younger takes its place.
    """

    def __init__(self, most: int) -> None:
        self._half = max(most // 2, 1)
        self.parts = [SuffixAutomaton(), SuffixAutomaton()]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def add(self, tokens: Sequence[int]) -> None:
        """Remember a text that has ended, its newest end where it is too long."""
        kept = tokens[max(len(tokens) - self._half + 1, 0) :]
        if not kept or self._half < 2:
            return
        if len(self.parts[1]) + len(kept) + 1 > self._half:
            self.parts = [self.parts[1], SuffixAutomaton()]
        self.parts[1].extend(kept)
        self.parts[1].extend((BETWEEN,))


class Reading:
    """Where the end of one growing text stands in past texts: its longest end that one of them holds."""

    __slots__ = ("_automata", "_past", "_places")

    def __init__(self, past: PastTexts, text: Sequence[int]) -> None:
        self._past = past
        self._automata: list[SuffixAutomaton] = []
        self._places: list[Place] = []
        self._begin(text)

    def follow(self, text: Sequence[int]) -> None:
        """Take in the last token of the text."""
        if self._automata != self._past.parts:
            self._begin(text)
            return
        token = text[-1]
        self._places = [
            automaton.follow(place, token)
            for automaton, place in zip(self._automata, self._places, strict=True)
        ]

    def match(self) -> tuple[int, SuffixAutomaton, int] | None:
        """Return the length of the longest match, its text and where it ends there, short of what followed.

        Of equal ones the younger. None where nothing is known that followed.
        """
        best: tuple[int, SuffixAutomaton, int] | None = None
        for automaton, place in zip(self._automata, self._places, strict=True):
            if place[0] == ROOT:
                continue
            for length, end in automaton.guesses_at(place, 1):
                if automaton.text[end] != BETWEEN and (best is None or length >= best[0]):
                    best = length, automaton, end
        return best

    def _begin(self, text: Sequence[int]) -> None:
        self._automata = list(self._past.parts)
        self._places = []
        for automaton in self._automata:
            place: Place = (ROOT, 0)
            for token in text[-LOOKED_BACK:]:
                place = automaton.follow(place, token)
            self._places.append(place)


def continuation(automaton: SuffixAutomaton, end: int, count: int) -> Sequence[int]:
    """Return at most `count` tokens that follow `end` in the same text."""
    found = automaton.text[end : end + count]
    return found[: found.index(BETWEEN)] if BETWEEN in found else found
