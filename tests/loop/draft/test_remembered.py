"""Past outputs of a tenant: bounded, found again, and nobody else's."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import VOCAB, toy_model
from outrider.engine.engine import Engine
from outrider.errors import OptionError
from outrider.loop.draft.base import Ask
from outrider.loop.draft.recent import RecentSuccessors
from outrider.loop.draft.remembered import TENANTS, ByTenant, PastTexts, Reading, continuation
from outrider.loop.draft.suffix import SuffixDrafter
from outrider.models.toy import ToyTarget
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree

WORDS = list(range(100, 112))
texts = st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=6)


def build(**options: Any) -> SuffixDrafter:
    return SuffixDrafter.build(cast(Any, None), None, {"past_tokens": 1000, **options})


def ended(drafter: SuffixDrafter, prompt: list[int], output: list[int], tenant: str = "") -> None:
    state = drafter.open(prompt, tenant)
    drafter.extend(state, output, 0)
    drafter.close(state)


def draft(drafter: SuffixDrafter, text: list[int], tenant: str = "", *, branch: bool = False) -> DraftTree:
    state = drafter.open(text, tenant)
    ask = Ask(state, text, 6, branch, params=cast(Any, None), draws=cast(Any, None))
    return drafter.propose([ask])[0]


def test_what_another_text_said_is_copied() -> None:
    drafter = build()
    ended(drafter, [1], WORDS)
    assert draft(drafter, [7, *WORDS[:5]]).tokens == tuple(WORDS[5:11])


def test_prompts_are_not_remembered() -> None:
    drafter = build()
    ended(drafter, WORDS, [1])
    assert draft(drafter, [7, *WORDS[:5]]) == DraftTree()


def test_without_the_option_nothing_is_remembered() -> None:
    drafter = build(past_tokens=0)
    ended(drafter, [1], WORDS)
    assert draft(drafter, [7, *WORDS[:5]]) == DraftTree()


def test_tenants_never_see_each_other_s_texts() -> None:
    drafter = build()
    ended(drafter, [1], WORDS, tenant="a")
    assert draft(drafter, [7, *WORDS[:5]], tenant="b") == DraftTree()
    assert draft(drafter, [7, *WORDS[:5]], tenant="a") != DraftTree()


def test_the_engine_keeps_tenants_apart() -> None:
    engine = Engine(toy_model(ToyTarget(VOCAB, seed=1, order=2)), build(), drafter_name="suffix")
    params = SamplingParams(max_tokens=7, ignore_eos=True)

    def drafted(tenant: str) -> int:
        request = engine.submit([0, 5, 2], params, tenant=tenant)
        while engine.busy:
            engine.step()
        assert request.result is not None
        return request.result.speculation.accepted

    first = drafted("a")
    assert drafted("b") == first
    assert drafted("a") > first
    with pytest.raises(OptionError, match="tenant"):
        engine.submit([0], params, tenant=cast(Any, 5))


def test_tenants_never_see_each_other_s_recycled_rows() -> None:
    class Rows:
        def __len__(self) -> int:
            return 1

        def likely(self, row: int, count: int) -> list[tuple[int, float]]:
            return [(9, 0.0)]

    guesser = RecentSuccessors(2, shared=True)
    mine = guesser.open([1, 2], "a")
    guesser.observe(mine, DraftTree(), Rows())
    guesser.settle(mine)

    def named(tenant: str) -> list[tuple[int, int]]:
        state = guesser.open([1, 2], tenant)
        state.table.clear()
        return guesser.named(state, guesser.here(state))

    assert [token for token, _ in named("a")] == [9]
    assert named("b") == []


def test_a_copy_ends_with_the_text_it_is_from() -> None:
    drafter = build()
    ended(drafter, [1], WORDS[:7])
    ended(drafter, [1], [50, 51, 52])
    assert draft(drafter, [7, *WORDS[:5]]).tokens == tuple(WORDS[5:7])


def test_a_text_s_own_longer_match_comes_first() -> None:
    drafter = build()
    ended(drafter, [1], [5, 6, 7, 8])
    assert draft(drafter, [4, 5, 6, 9, 4, 5, 6]).tokens[0] == 9
    assert draft(drafter, [6, 9, 3, 5, 6]).tokens[0] == 7


def test_where_past_texts_and_the_own_one_differ_both_are_drafted() -> None:
    drafter = build()
    ended(drafter, [1], [2, 3, 4, 5, 6, 7, 8])
    tree = draft(drafter, [6, 9, 9, 3, 4, 5, 6], branch=True)
    roots = [tree.tokens[node] for node in tree.children(-1)]
    assert roots[0] == 7
    assert 9 in roots


@given(texts, st.integers(2, 40))
def test_the_store_holds_no_more_than_it_may_and_the_newest_text(past: list[list[int]], most: int) -> None:
    store = PastTexts(most)
    for text in past:
        store.add(text)
        assert len(store) <= most
        if text and len(text) < most // 2:
            end = store.parts[1].text[-len(text) - 1 : -1].tolist()
            assert end == text


@given(texts, st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(4, 60))
def test_a_match_is_an_end_of_the_text_that_a_past_one_holds(
    past: list[list[int]], text: list[int], most: int
) -> None:
    store = PastTexts(most)
    reading = Reading(store, text[:1])
    for count in range(2, len(text) + 1):
        if past and count % 3 == 0:
            store.add(past.pop())
        reading.follow(text[:count])
        found = reading.match()
        if found is not None:
            length, automaton, end = found
            assert automaton.text[end - length : end].tolist() == text[count - length : count]
            assert continuation(automaton, end, 3)


def test_tenants_that_were_not_heard_of_for_longest_are_forgotten() -> None:
    kept: ByTenant[list[int]] = ByTenant(list)
    for number in range(TENANTS + 5):
        kept.of("first").append(number)
        kept.of(str(number)).append(number)
    assert len(kept) == TENANTS
    assert len(kept.of("first")) == TENANTS + 5
    assert kept.of("0") == []


def test_a_store_of_less_than_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="past_tokens"):
        build(past_tokens=-1)
