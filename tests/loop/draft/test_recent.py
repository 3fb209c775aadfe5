"""Recycled successors: learned from the target's rows, of rejected nodes too, and never ahead of time."""

from __future__ import annotations

from outrider.loop.draft.recent import BOUNDS, GRADES, MOST_SHARED, RecentState, RecentSuccessors
from outrider.types import DraftTree


class GivenRows(list[list[tuple[int, float]]]):
    """Likely tokens of each row, as a list."""

    def likely(self, row: int, count: int) -> list[tuple[int, float]]:
        return self[row][:count]


def step(
    guesser: RecentSuccessors,
    state: RecentState,
    tree: DraftTree,
    rows: list[list[tuple[int, float]]],
    committed: list[int],
) -> None:
    guesser.observe(state, tree, GivenRows(rows))
    for token in committed:
        guesser.extend(state, token)
    guesser.settle(state)


def tokens_at(guesser: RecentSuccessors, state: RecentState, *place: int) -> list[int]:
    return [token for token, _ in guesser.named(state, (place[0], place[1]))]


def test_the_prompt_s_own_pairs_are_guessed_until_the_target_says_more() -> None:
    guesser = RecentSuccessors(3, shared=False)
    state = guesser.open([1, 2, 3, 1, 2])
    assert guesser.here(state) == (1, 2)
    assert tokens_at(guesser, state, 1, 2) == [3]
    step(guesser, state, DraftTree(), [[(7, 0.0), (3, 1.0)]], [7])
    assert tokens_at(guesser, state, 1, 2) == [7, 3]
    assert tokens_at(guesser, state, 9, 2) == [7, 3]


def test_rows_of_rejected_nodes_are_remembered_too() -> None:
    guesser = RecentSuccessors(3, shared=False)
    state = guesser.open([1])
    step(guesser, state, DraftTree((2, 5), (-1, -1)), [[(6, 0.0)], [(3, 0.0)], [(4, 0.0)]], [6])
    assert tokens_at(guesser, state, 1, 2) == [3]
    assert tokens_at(guesser, state, 1, 5) == [4]
    assert tokens_at(guesser, state, 8, 5) == [4]


def test_a_pair_is_asked_before_its_last_token_alone() -> None:
    guesser = RecentSuccessors(3, shared=False)
    state = guesser.open([1])
    step(guesser, state, DraftTree((2,), (-1,)), [[(2, 0.0)], [(3, 0.0)]], [2, 3])
    step(guesser, state, DraftTree((9, 2), (-1, 0)), [[(9, 0.0)], [(2, 0.0)], [(4, 0.0)]], [9, 2, 4])
    assert tokens_at(guesser, state, 1, 2) == [3, 4]
    assert tokens_at(guesser, state, 9, 2) == [4]


def test_guesses_are_filed_by_context_and_by_how_likely_the_target_found_them() -> None:
    guesser = RecentSuccessors(3, shared=False)
    state = guesser.open([1])
    step(guesser, state, DraftTree(), [[(2, 0.0), (3, 0.5), (4, 2.0)]], [2])
    state = guesser.open([2, 1])
    step(guesser, state, DraftTree(), [[(5, 0.0), (6, 4.0)]], [1])
    pair = dict(guesser.named(state, (2, 1)))
    single = dict(guesser.named(state, (9, 1)))
    assert pair == {5: 0, 6: len(BOUNDS)}, "sure of the first, the second far behind"
    assert set(single) == {5, 6}
    assert not set(single.values()) & set(pair.values()), "the same token without the pair is another kind"
    assert len(guesser.priors) == 4 * GRADES


def test_what_other_sequences_saw_is_asked_after_what_this_one_saw() -> None:
    guesser = RecentSuccessors(3, shared=True)
    one, other = guesser.open([1]), guesser.open([1])
    step(guesser, one, DraftTree(), [[(5, 0.0)]], [5])
    assert tokens_at(guesser, other, 0, 1) == [5]
    step(guesser, other, DraftTree(), [[(6, 0.0)]], [6])
    assert tokens_at(guesser, other, 0, 1) == [6]
    assert tokens_at(guesser, one, 0, 1) == [5, 6]
    alone = RecentSuccessors(3, shared=False)
    step(alone, alone.open([1]), DraftTree(), [[(5, 0.0)]], [5])
    assert tokens_at(alone, alone.open([1]), 0, 1) == []


def test_what_is_remembered_across_sequences_is_bounded() -> None:
    guesser = RecentSuccessors(1, shared=True)
    state = guesser.open([0])
    count = MOST_SHARED // 2 + 100
    state.seen = [((0, token), ((token, 0),)) for token in range(1, count)]
    guesser.settle(state)
    fresh = guesser.open([0])
    assert tokens_at(guesser, fresh, 0, 1) == []
    assert tokens_at(guesser, fresh, 0, count - 1) == [count - 1]
