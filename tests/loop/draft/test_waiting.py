"""Committed tokens wait until somebody asks for a draft, and no draft is another one for it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, cast

import pytest

from outrider.loop.draft.auto import AutoDrafter
from outrider.loop.draft.base import Ask, Drafter
from outrider.loop.draft.copied import CopiedText
from outrider.loop.draft.guessing import WAITING, GuessingDrafter
from outrider.loop.draft.recent import RecentSuccessors
from outrider.loop.draft.suffix import WAITING as SUFFIX_WAITING
from outrider.loop.draft.suffix import SuffixDrafter, SuffixOptions
from outrider.types import DraftTree


class EagerSuffix(SuffixDrafter):
    """The reference: every token is indexed when it comes."""

    def open(self, *given: Any) -> Any:
        state = super().open(*given)
        self.catch_up(state)
        return state

    def extend(self, state: Any, tokens: Sequence[int], kept: int) -> None:
        super().extend(state, tokens, kept)
        self.catch_up(state)


class EagerGuessing(GuessingDrafter):
    """The reference: the guessers hear of every token when it comes."""

    def extend(self, state: Any, tokens: Sequence[int], kept: int) -> None:
        super().extend(state, tokens, kept)
        self.catch_up(state)


def recycling(kind: type[GuessingDrafter]) -> GuessingDrafter:
    return kind("recycle", [RecentSuccessors(4, shared=True)], max_nodes=8, threshold=0.01)


def merging(kind: type[GuessingDrafter]) -> GuessingDrafter:
    parts = [CopiedText(3), RecentSuccessors(4, shared=True)]
    return kind("merged", parts, max_nodes=8, threshold=0.003)


PAIRS: dict[str, tuple[Drafter, Drafter]] = {
    "suffix": (SuffixDrafter(), EagerSuffix()),
    "suffix with past texts": (
        SuffixDrafter(SuffixOptions(past_tokens=60)),
        EagerSuffix(SuffixOptions(past_tokens=60)),
    ),
    "recycle": (recycling(GuessingDrafter), recycling(EagerGuessing)),
    "merged": (merging(GuessingDrafter), merging(EagerGuessing)),
    "auto": (
        AutoDrafter([SuffixDrafter(), recycling(GuessingDrafter)]),
        AutoDrafter([EagerSuffix(), recycling(EagerGuessing)]),
    ),
}


class SomeRows(list[list[tuple[int, float]]]):
    """Likely tokens of each row."""

    def likely(self, row: int, count: int) -> list[tuple[int, float]]:
        return self[row][:count]


def drafts(drafter: Drafter, seed: int) -> list[DraftTree]:
    """Return all drafts of four sequences that open, are asked now and then, and close, at random."""
    chance, found = random.Random(seed), list[DraftTree]()
    states: list[Any] = []
    for step in range(400):
        while len(states) < 4:
            states.append(drafter.open([chance.randrange(5) for _ in range(chance.randrange(1, 90))]))
        state = chance.choice(states)
        asking = chance.random() < (0.7 if step % 100 < 30 else 0.03)
        if asking:
            ask = Ask(state, [], 6, chance.random() < 0.5, params=cast(Any, None), draws=cast(Any, None))
            tree = drafter.propose([ask])[0]
            found.append(tree)
            rows = SomeRows([[(chance.randrange(5), 0.0), (9, -1.0)] for _ in range(7)])
            if drafter.observes:
                drafter.observe(state, tree, rows)
        drafter.extend(state, [chance.randrange(5) for _ in range(chance.randrange(1, 4))], 0)
        if chance.random() < 0.02:
            drafter.close(state)
            states.remove(state)
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PAIRS)
def test_drafts_are_those_of_a_drafter_that_lets_no_token_wait(name: str, seed: int) -> None:
    waiting, eager = (drafts(drafter, seed) for drafter in PAIRS[name])
    assert sum(map(len, waiting)) > 0
    assert waiting == eager
    assert [tree.chances for tree in waiting] == [tree.chances for tree in eager]


def test_no_draft_has_many_tokens_to_catch_up_with() -> None:
    suffix, merged = SuffixDrafter(), merging(GuessingDrafter)
    copied, mixed = suffix.open([1]), merged.open([1])
    for token in range(1000):
        suffix.extend(copied, [token % 7], 0)
        merged.extend(mixed, [token % 7], 0)
        assert len(copied.waiting) < SUFFIX_WAITING
        assert len(mixed.waiting) < WAITING


def test_a_prompt_that_grows_afterwards_is_indexed_as_it_was() -> None:
    """The engine opens a drafter with the list that it then goes on writing to."""
    drafter, text = SuffixDrafter(), [1, 2, 3, 1, 2]
    state = drafter.open(text)
    text.append(4)
    drafter.extend(state, [4], 0)
    drafter.catch_up(state)
    assert list(state.automaton.text) == [1, 2, 3, 1, 2, 4]
