"""How likely guesses are: what the record of each guesser says, mixed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outrider.loop.draft.base import Rows
from outrider.loop.draft.guess import CERTAIN, Guess, Guesser
from outrider.loop.draft.rates import Odds
from outrider.types import DraftTree

WEIGHT = 0.6
"""What the log odds of each of several parts count for."""
ABSENT = -1.8
"""Log odds, weighed, of a part that does not name a token."""
BIAS = 0.6
"""Log odds that are always added where there are several parts."""


@dataclass(slots=True)
class MixedState:
    """One sequence: the states of the parts, and how good the guesses of each were."""

    parts: list[Any]
    odds: list[Odds]


class MixedGuesses:
    """The guesses of one or several guessers, each token once, with the chance that it comes next.

    A part's record tells the chance of a guess of its kind in this sequence. Where there are several parts,
    their log odds are added with weights, and a part that does not name a token speaks against it: logistic
    mixing, as compressors mix models (Mahoney, "Adaptive Weighing of Context Models for Lossless Data
    Compression", 2005), with fixed weights.
    """

    def __init__(self, parts: Sequence[Guesser]) -> None:
        self._parts = tuple(parts)
        self.observes = any(part.observes for part in parts)
        # What a guess is filed under is one number, with a digit for each part; 0: it did not name the token.
        self._strides = [1]
        for part in self._parts:
            self._strides.append(self._strides[-1] * (len(part.priors) + 1))
        several = len(self._parts) > 1
        self._weight, self._absent, bias = (WEIGHT, ABSENT, BIAS) if several else (1.0, 0.0, 0.0)
        self._start = bias + self._absent * len(self._parts)

    def open(self, prompt: Sequence[int], tenant: str = "") -> MixedState:
        """Open every part."""
        return MixedState(
            [p.open(prompt, tenant) for p in self._parts], [Odds(p.priors) for p in self._parts]
        )

    def here(self, state: MixedState) -> tuple[Any, ...]:
        """Return every part's place at the end of the committed text."""
        return tuple([part.here(own) for part, own in zip(self._parts, state.parts, strict=True)])

    def follow(self, state: MixedState, place: tuple[Any, ...], token: int) -> tuple[Any, ...]:
        """Return every part's place after one more token."""
        parts = zip(self._parts, state.parts, place, strict=True)
        return tuple([part.follow(own, at, token) for part, own, at in parts])

    def guesses(self, state: MixedState, place: tuple[Any, ...]) -> list[Guess]:
        """Return all parts' guesses; their chances sum to `CERTAIN` at most."""
        start, weight, absent = self._start, self._weight, self._absent
        mixed: dict[int, float] = {}
        kinds: dict[int, int] = {}
        for index, part in enumerate(self._parts):
            odds, stride = state.odds[index].now, self._strides[index]
            for token, kind in part.named(state.parts[index], place[index]):
                mixed[token] = mixed.get(token, start) + weight * odds[kind] - absent
                kinds[token] = kinds.get(token, 0) + stride * (kind + 1)
        exp = math.exp
        found = [Guess(token, 1 / (1 + exp(-odd)), kinds[token]) for token, odd in mixed.items()]
        total = sum([guess[1] for guess in found])
        if total > CERTAIN:
            scale = CERTAIN / total
            found = [Guess(token, chance * scale, kind) for token, chance, kind in found]
        return found

    def parts_of(self, kind: Any) -> list[int]:
        """Return which parts, by number, named a guess of a kind."""
        found = []
        for number, part in enumerate(self._parts):
            kind, named = divmod(kind, len(part.priors) + 1)
            found += [number] if named else []
        return found

    def observe(self, state: MixedState, tree: DraftTree, rows: Rows) -> None:
        """Show the rows to the parts that learn from them."""
        for part, own in zip(self._parts, state.parts, strict=True):
            if part.observes:
                part.observe(own, tree, rows)

    def extend(self, state: MixedState, token: int, guesses: Sequence[Guess] | None = None) -> None:
        """Note which guesses were right, and tell the parts; `guesses`: those made there, if any."""
        if guesses is None:
            guesses = self.guesses(state, self.here(state))
        for guess in guesses:
            rest: Any = guess.kind
            for part, odds in zip(self._parts, state.odds, strict=True):
                rest, kind = divmod(rest, len(part.priors) + 1)
                if kind:
                    odds.record(kind - 1, guess.token == token)
        self.move(state, token)

    def move(self, state: MixedState, token: int) -> None:
        """Tell the parts a committed token, without a record of guesses."""
        for part, own in zip(self._parts, state.parts, strict=True):
            part.extend(own, token)

    def settle(self, state: MixedState) -> None:
        """Settle every part."""
        for part, own in zip(self._parts, state.parts, strict=True):
            part.settle(own)
