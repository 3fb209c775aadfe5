"""Places in the suffix automaton: after any guess, what followed the longest known end before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.loop.draft.automaton import SuffixAutomaton
from outrider.loop.draft.copied import CopiedText

texts = st.lists(st.integers(0, 2), min_size=1, max_size=40)


@given(texts, st.lists(st.integers(0, 3), max_size=6))
def test_a_place_is_the_longest_end_that_the_text_holds(text: list[int], more: list[int]) -> None:
    automaton = SuffixAutomaton(text)
    place = automaton.place
    led = text[len(text) - place[1] :]
    for token in more:
        place = automaton.follow(place, token)
        led = [*led, token]
        held = [
            n
            for n in range(len(led) + 1)
            if any(text[i : i + n] == led[len(led) - n :] for i in range(len(text)))
        ]
        assert place[1] == max(held)
        led = led[len(led) - place[1] :]


@given(texts, st.lists(st.integers(0, 2), max_size=6))
def test_every_guess_followed_an_occurrence_of_the_place_s_end(text: list[int], more: list[int]) -> None:
    automaton = SuffixAutomaton(text)
    place = automaton.place
    led = list(text)
    for token in more:
        place = automaton.follow(place, token)
        led.append(token)
        guesses = automaton.guesses_at(place, 4)
        assert len({text[end] for _, end in guesses}) == len(guesses)
        assert all(0 < end < len(text) and text[end - 1] == token for _, end in guesses)


@given(texts)
def test_at_the_end_of_the_text_the_guesses_are_those_of_the_match(text: list[int]) -> None:
    automaton = SuffixAutomaton(text)
    assert automaton.guesses_at(automaton.place, 4) == automaton.guesses(4)


def test_a_period_goes_on_past_the_end_of_the_text() -> None:
    copied = CopiedText(2)
    state = copied.open([1, 2, 3, 1, 2, 3])
    place, guessed = copied.here(state), []
    for _ in range(7):
        guessed.append(copied.named(state, place)[0][0])
        place = copied.follow(state, place, guessed[-1])
    assert guessed == [1, 2, 3, 1, 2, 3, 1]


def test_after_a_token_that_did_not_follow_before_a_shorter_end_is_looked_up() -> None:
    copied = CopiedText(2)
    state = copied.open([5, 6, 7, 8, 1, 6])
    assert [token for token, _ in copied.named(state, copied.here(state))] == [7]
    place = copied.follow(state, copied.here(state), 8)
    assert [token for token, _ in copied.named(state, place)] == [1]
