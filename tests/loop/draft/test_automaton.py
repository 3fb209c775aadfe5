from __future__ import annotations

import random
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from outrider.loop.draft.automaton import REFRESHED, SEARCHED, SuffixAutomaton

SHORT = st.integers(1, 4).flatmap(lambda v: st.lists(st.integers(0, v - 1), max_size=REFRESHED))
"""Short enough that no state can miss an occurrence."""
LONG = st.integers(1, 3).flatmap(lambda v: st.lists(st.integers(0, v - 1), max_size=120))
RUNS = st.lists(
    st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.integers(1, 60)), max_size=4
).map(lambda runs: [token for period, times in runs for token in period * times])


def earlier_ends(text: list[int], length: int) -> list[int]:
    """Return where the last `length` tokens also end, short of the text's end, the most recent first."""
    suffix = text[len(text) - length :]
    return [end for end in range(len(text) - 1, length - 1, -1) if text[end - length : end] == suffix]


def longest_match(text: list[int]) -> tuple[int, int]:
    """Return (length, most recent end) of the longest suffix that also ends earlier."""
    for length in range(len(text) - 1, 0, -1):
        ends = earlier_ends(text, length)
        if ends:
            return length, ends[0]
    return 0, 0


def test_an_empty_text_has_no_match() -> None:
    automaton = SuffixAutomaton()
    assert (len(automaton), automaton.match_length, automaton.guesses(3)) == (0, 0, [])


def test_a_new_token_has_no_match() -> None:
    automaton = SuffixAutomaton([1, 2, 1, 2, 9])
    assert (automaton.match_length, automaton.guesses(3)) == (0, [])


def test_the_last_occurrence_is_found_rather_than_the_first() -> None:
    automaton = SuffixAutomaton([1, 2, 7, 1, 2, 8, 1, 2])
    assert (automaton.match_length, automaton.match_end) == (2, 5)
    assert list(automaton.continuation(5, 2)) == [8, 1]


@given(SHORT)
def test_match_is_the_longest_suffix_that_ends_earlier_at_its_most_recent_end(text: list[int]) -> None:
    automaton = SuffixAutomaton()
    for count, token in enumerate(text, 1):
        automaton.extend([token])
        length, end = longest_match(text[:count])
        assert automaton.match_length == length
        assert length == 0 or automaton.match_end == end


@given(st.one_of(LONG, RUNS))
def test_long_runs_never_shorten_the_match_nor_invent_an_occurrence(text: list[int]) -> None:
    """Past the bound an end may be an older one, but what is copied really followed the match."""
    automaton = SuffixAutomaton(text)
    length, _ = longest_match(text)
    assert automaton.match_length == length
    assert length == 0 or automaton.match_end in earlier_ends(text, length)


def test_a_split_does_not_leave_a_match_that_is_too_long() -> None:
    """The second `2 3` splits the state that a cursor kept beside the automaton would be left sitting on."""
    text = [1, 2, 3, 9, 2, 3, 8, 2]
    automaton = SuffixAutomaton()
    for count, token in enumerate(text, 1):
        automaton.extend([token])
        assert automaton.match_length == longest_match(text[:count])[0]


@given(SHORT)
def test_guesses_are_every_follower_of_a_suffix_under_its_longest_one(text: list[int]) -> None:
    automaton = SuffixAutomaton(text)
    guesses = automaton.guesses(10)
    followers: dict[int, tuple[int, int]] = {}
    for length in range(longest_match(text)[0], 0, -1):
        for end in earlier_ends(text, length):
            followers.setdefault(text[end], (length, end))
    found = {text[end]: (length, end) for length, end in guesses}
    assert len(found) == len(guesses)
    assert all(followers[token] == guess for token, guess in found.items())
    classes = {len(earlier_ends(text, length)) for length in range(1, automaton.match_length + 1)}
    if len(classes) <= SEARCHED:
        assert found == followers


@given(st.one_of(LONG, RUNS), st.integers(1, 4))
def test_guesses_are_true_occurrences_longest_first_the_match_leading(text: list[int], limit: int) -> None:
    automaton = SuffixAutomaton(text)
    guesses = automaton.guesses(limit)
    assert len(guesses) <= limit
    assert bool(guesses) == (automaton.match_length > 0)
    assert guesses[:1] in ([], [(automaton.match_length, automaton.match_end)])
    assert [length for length, _ in guesses] == sorted((length for length, _ in guesses), reverse=True)
    assert all(end in earlier_ends(text, length) for length, end in guesses)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(0, 40), st.data())
def test_a_continuation_copies_token_by_token_into_itself(
    text: list[int], count: int, data: st.DataObject
) -> None:
    end = data.draw(st.integers(0, len(text) - 1))
    grown = list(text)
    for step in range(count):
        grown.append(grown[end + step])
    assert list(SuffixAutomaton(text).continuation(end, count)) == grown[len(text) :]


@given(LONG, st.integers(0, 120))
def test_extending_in_parts_is_extending_at_once(text: list[int], cut: int) -> None:
    parts = SuffixAutomaton(text[:cut])
    parts.extend(text[cut:])
    whole = SuffixAutomaton(text)
    assert list(parts.text) == text
    assert (parts.match_length, parts.guesses(4)) == (whole.match_length, whole.guesses(4))


def test_a_token_takes_less_than_a_kilobyte() -> None:
    draw = random.Random(0).randrange
    texts = {
        "random": [draw(49152) for _ in range(4096)],
        "binary": [draw(2) for _ in range(4096)],
        "periodic": [position % 7 for position in range(4096)],
    }
    for name, text in texts.items():
        tracemalloc.start()
        automaton = SuffixAutomaton(text)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < 1000 * len(automaton), name
