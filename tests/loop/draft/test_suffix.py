from __future__ import annotations

import random
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import OptionError
from outrider.loop.draft.base import Ask
from outrider.loop.draft.suffix import LAST_BUCKET, PRIOR, HitRates, SuffixDrafter, SuffixOptions, SuffixState
from outrider.registry import DRAFTERS
from outrider.types import DraftTree

TARGET = cast(Any, None)
EAGER = {"threshold": 0.0}
TEXTS = st.integers(1, 4).flatmap(lambda v: st.lists(st.integers(0, v - 1), min_size=1, max_size=40))


def build(**options: Any) -> SuffixDrafter:
    return SuffixDrafter.build(TARGET, None, options)


def ask(state: SuffixState, budget: int = 8, branch: bool = False) -> Ask:
    return Ask(state, [], budget, branch, params=cast(Any, None), draws=cast(Any, None))


def draft(drafter: SuffixDrafter, text: list[int], budget: int = 8, branch: bool = False) -> DraftTree:
    return drafter.propose([ask(drafter.open(text), budget, branch)])[0]


def test_it_is_registered_by_its_name() -> None:
    assert DRAFTERS.load(SuffixDrafter.name) is SuffixDrafter


def test_it_copies_what_followed_the_last_occurrence() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5]
    assert draft(build(), text, budget=4) == DraftTree.chain((6, 7, 8, 9))


def test_text_without_repetition_is_not_drafted() -> None:
    assert draft(build(**EAGER), list(range(50)), branch=True) == DraftTree()


def test_a_period_is_drafted_to_the_end_of_the_budget() -> None:
    assert draft(build(), [1, 2, 3] * 20, budget=8) == DraftTree.chain((1, 2, 3, 1, 2, 3, 1, 2))


def test_a_longer_match_is_copied_further() -> None:
    body = list(range(100, 140))
    lengths = [len(draft(build(), [*body, *body[:match]], budget=15)) for match in (1, 3, 9, 20)]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


@given(TEXTS, st.integers(1, 20), st.booleans(), st.integers(1, 6))
def test_a_draft_never_exceeds_budget_or_max_nodes(
    text: list[int], budget: int, branch: bool, most: int
) -> None:
    tree = draft(build(**EAGER, max_nodes=most), text, budget, branch)
    assert len(tree) <= min(budget, most)
    assert tree.laws is None
    assert branch or tree.is_chain


@given(TEXTS)
def test_every_first_guess_has_followed_the_last_token_before(text: list[int]) -> None:
    tree = draft(build(**EAGER), text, branch=True)
    followers = {after for token, after in pairwise(text) if token == text[-1]}
    first = [tree.tokens[node] for node in tree.children(-1)]
    assert set(first) <= followers
    assert len(first) == len(set(first))
    assert bool(first) == bool(followers)


def test_other_followers_become_siblings_where_siblings_are_allowed() -> None:
    text = [1, 2, 5, 1, 2, 6, 1, 2]
    tree = draft(build(threshold=0.1), text, branch=True)
    assert [tree.tokens[node] for node in tree.children(-1)] == [6, 5]
    assert draft(build(threshold=0.1), text, branch=False).is_chain
    assert draft(build(threshold=0.1, alternatives=0), text, branch=True).is_chain


def test_an_unlikely_sibling_does_not_displace_a_likely_next_token() -> None:
    text = [1, 2, 5, *[1, 2, 6] * 12, 1, 2]
    drafter = build()
    state = drafter.open([])
    drafter.extend(state, text, 0)
    assert drafter.propose([ask(state, branch=True)])[0].tokens[:3] == (6, 1, 2)


def test_matches_shorter_than_min_match_are_not_drafted() -> None:
    text = [1, 2, 3, 4, 9, 8, 1, 2]
    assert len(draft(build(min_match=2, **EAGER), text)) > 0
    assert draft(build(min_match=3, **EAGER), text, branch=True) == DraftTree()


def test_the_dearer_a_node_is_the_fewer_are_drafted() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2]
    drafter = build()
    lengths = []
    for price in (0.0, 0.05, 0.2, 1.0):
        asked = replace(ask(drafter.open(text)), costs=[1 + price * nodes for nodes in range(9)])
        lengths.append(len(drafter.propose([asked])[0]))
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 8
    assert lengths[-1] == 0


def test_a_sequence_whose_guesses_fail_stops_drafting_and_resumes_when_they_hold() -> None:
    """Text in which the same token never has the same follower twice, then text that repeats itself."""
    drafter = build()
    state = drafter.open([0])
    for token in range(1, 200):
        drafter.extend(state, (token, 0), 0)
    assert drafter.propose([ask(state, branch=True)])[0] == DraftTree()
    drafter.extend(state, [1001, 1002, 1003, 1004] * 10, 0)
    assert len(drafter.propose([ask(state)])[0]) == 8


def test_what_was_drafted_or_kept_does_not_change_what_is_learnt() -> None:
    draw = random.Random(1).randrange
    text = [draw(6) for _ in range(200)]
    drafter = build()
    one, other = drafter.open(text[:50]), drafter.open(text[:50])
    drafter.extend(one, text[50:], 0)
    for start in range(50, 200, 3):
        drafter.propose([ask(other, branch=True)])
        drafter.extend(other, text[start : start + 3], 2)
    assert drafter.propose([ask(one)]) == drafter.propose([ask(other)])
    assert one.rates == other.rates


def test_sequences_do_not_see_each_other() -> None:
    drafter = build()
    first, second = drafter.open([1, 2, 1]), drafter.open([1, 3, 1])
    trees = drafter.propose([ask(first, 1), ask(second, 1)])
    assert [tree.tokens for tree in trees] == [(2,), (3,)]
    drafter.close(first)
    assert drafter.propose([ask(second, 1)])[0].tokens == (3,)


def test_rates_start_at_the_prior_and_move_towards_what_happens() -> None:
    rates = HitRates()
    assert rates.rate(1) == PRIOR[1]
    assert rates.rate(10_000) == PRIOR[LAST_BUCKET]
    rising = [rates.rate(2)]
    for _ in range(300):
        rates.record(2, True)
        rising.append(rates.rate(2))
    assert rising == sorted(rising)
    assert 0.95 < rising[-1] < 1
    assert rates.rate(1) == PRIOR[1]


def test_survival_falls_and_stops_at_count_or_floor() -> None:
    rates = HitRates()
    chances = rates.survival(2, 1.0, 10, 0.0)
    assert len(chances) == 10
    assert chances[0] == PRIOR[2]
    assert all(later < earlier for earlier, later in pairwise(chances))
    assert rates.survival(2, 1.0, 10, chances[3]) == chances[:4]


def test_an_unknown_option_is_refused_with_the_near_ones() -> None:
    with pytest.raises(OptionError, match="did you mean 'min_match'"):
        build(min_mach=2)


@pytest.mark.parametrize(
    "options",
    [
        {"min_match": 0},
        {"max_nodes": 0},
        {"alternatives": -1},
        {"threshold": 1.5},
        {"threshold": -0.1},
        {"max_nodes": 2.5},
        {"max_nodes": True},
        {"threshold": "much"},
        {"max_nodes": "2.5"},
    ],
)
def test_an_option_out_of_its_range_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=repr(next(iter(options)))):
        build(**options)


def test_every_option_can_be_set_to_its_default() -> None:
    defaults = {option.name: option.default for option in fields(SuffixOptions)}
    assert build(**defaults).options == SuffixOptions()
