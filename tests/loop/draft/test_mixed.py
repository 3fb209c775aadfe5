"""Chances of guesses: told by each part, mixed, and learned before the target gives them away."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.loop.draft.base import Rows
from outrider.loop.draft.copied import CopiedText
from outrider.loop.draft.guess import CERTAIN, Guess
from outrider.loop.draft.guessing import GuessingDrafter
from outrider.loop.draft.mixed import MixedGuesses
from outrider.loop.draft.rates import SUREST, Odds, log_odds
from outrider.loop.draft.recent import RecentSuccessors
from outrider.types import DraftTree


class Fixed:
    """Names the same tokens at every place, each of its own kind."""

    observes = False

    def __init__(self, named: dict[int, float]) -> None:
        self.priors = tuple(named.values())
        self._named = [(token, kind) for kind, token in enumerate(named)]

    def open(self, prompt: Sequence[int], tenant: str = "") -> None:
        return None

    def here(self, state: None) -> None:
        return None

    def follow(self, state: None, place: None, token: int) -> None:
        return None

    def named(self, state: None, place: None) -> list[tuple[int, int]]:
        return self._named

    def observe(self, state: None, tree: DraftTree, rows: Rows) -> None:
        raise AssertionError("it does not observe")

    def extend(self, state: None, token: int) -> None:
        """Learn nothing."""

    def settle(self, state: None) -> None:
        """Do nothing."""


class GivenRows(list[list[tuple[int, float]]]):
    """Likely tokens of each row, as a list."""

    def likely(self, row: int, count: int) -> list[tuple[int, float]]:
        return self[row][:count]


def chances_of(*parts: dict[int, float]) -> dict[int, float]:
    mixed = MixedGuesses([Fixed(named) for named in parts])
    state = mixed.open([])
    guesses = mixed.guesses(state, mixed.here(state))
    assert len({guess.token for guess in guesses}) == len(guesses)
    return {guess.token: guess.chance for guess in guesses}


def test_a_single_part_is_taken_at_its_word() -> None:
    assert chances_of({5: 0.7, 6: 0.1}) == pytest.approx({5: 0.7, 6: 0.1})


def test_a_token_that_two_parts_name_is_likelier_than_one_that_either_names_alone() -> None:
    both = chances_of({5: 0.4, 6: 0.2}, {5: 0.4, 7: 0.2})
    assert both[5] > 0.4 > max(both[6], both[7])


tables = st.dictionaries(st.integers(0, 4), st.floats(0.0, 1.0), max_size=4)


@given(st.lists(tables, min_size=1, max_size=3))
def test_chances_at_one_place_leave_a_chance_that_all_guesses_are_wrong(
    parts: list[dict[int, float]],
) -> None:
    chances = chances_of(*parts)
    assert set(chances) == {token for part in parts for token in part}
    assert all(0 < chance < 1 for chance in chances.values())
    assert sum(chances.values()) <= CERTAIN + 1e-9


def test_every_guess_for_a_committed_position_is_learned_from_in_the_part_that_made_it() -> None:
    mixed = MixedGuesses([Fixed({5: 0.5, 6: 0.5}), Fixed({6: 0.5, 7: 0.5})])
    state = mixed.open([])
    for _ in range(50):
        mixed.extend(state, 6)
    first, second = (odds.now for odds in state.odds)
    assert first[0] < -1 < 1 < first[1]
    assert second[1] < -1 < 1 < second[0]


def test_guesses_that_were_made_already_are_learned_from_as_they_were_made() -> None:
    mixed = MixedGuesses([Fixed({5: 0.5, 6: 0.5})])
    state = mixed.open([])
    mixed.extend(state, 5, [Guess(6, 0.5, 2)])
    assert state.odds[0].now[0] == 0.0
    assert state.odds[0].now[1] < 0.0


@given(st.integers(1, 400), st.booleans())
def test_odds_stay_finite_whatever_comes_true(times: int, hit: bool) -> None:
    odds = Odds([0.0, 1.0, 0.5])
    for kind in range(3):
        for _ in range(times):
            odds.record(kind, hit)
    assert all(abs(now) <= log_odds(1 - SUREST) + 1e-9 for now in odds.now)


def test_a_drafter_learns_which_of_its_guesses_were_right_before_it_takes_in_the_rows_of_the_pass() -> None:
    """Else every guess would look right: the row that foretells a token arrives together with it."""
    drafter = GuessingDrafter("recycle", [RecentSuccessors(3, shared=False)], max_nodes=8, threshold=0.01)
    state = drafter.open([1])
    before = list(state.known.odds[0].now)
    for token in range(2, 8):
        drafter.observe(state, DraftTree(), GivenRows([[(token, 0.0)]]))
        drafter.extend(state, [token], 0)
    assert state.known.odds[0].now == before


def test_all_parts_learn_the_rows_and_the_text() -> None:
    mixed = MixedGuesses([CopiedText(2), RecentSuccessors(3, shared=False)])
    state = mixed.open([1, 2, 3])
    assert mixed.observes
    mixed.observe(state, DraftTree(), GivenRows([[(1, 0.0), (9, 1.0)]]))
    mixed.extend(state, 1)
    mixed.settle(state)
    assert {guess.token for guess in mixed.guesses(state, mixed.here(state))} == {2}
    place = mixed.follow(state, mixed.follow(state, mixed.here(state), 2), 3)
    assert {guess.token for guess in mixed.guesses(state, place)} == {1, 9}
