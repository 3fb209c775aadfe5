"""Stored prefixes: found by their tokens, held while in use, dropped from the end of a text backwards."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.cache.prefix import Lease, PrefixStore
from outrider.models.toy import ToyPage

SLOTS = 2
PAGE = ToyPage((0,) * SLOTS).nbytes
TEXTS = st.lists(st.integers(0, 1), max_size=9)


def pages_of(text: list[int], slots: int = SLOTS) -> list[ToyPage]:
    return [ToyPage(tuple(text[i : i + slots])) for i in range(0, len(text) - slots + 1, slots)]


@given(
    most=st.integers(0, 6),
    steps=st.lists(
        st.tuples(st.sampled_from(["run", "draft", "end", "free"]), TEXTS, st.integers(0, 9)), max_size=30
    ),
)
@settings(max_examples=200)
def test_a_lease_holds_pages_of_its_own_text_and_nothing_held_is_dropped(
    most: int, steps: list[tuple[str, list[int], int]]
) -> None:
    store, mark = PrefixStore(SLOTS, most * PAGE), object()
    running: list[tuple[list[int], Lease]] = []
    for what, text, number in steps:
        if what == "run":
            matched = store.match(text)
            lease = store.lease(text)
            assert lease.tokens == len(lease.pages) * SLOTS == matched
            store.add(lease, text, pages_of(text))
            running.append((text, lease))
        elif what == "draft":  # a drafter's caches, with pages twice as long
            lease = store.lease(text, mark, 2 * SLOTS)
            store.add(lease, text, pages_of(text, 2 * SLOTS))
            running.append((text, lease))
        elif what == "end" and running:
            store.release(running.pop(number % len(running))[1])
        elif what == "free":
            before = store.nbytes
            assert before - store.nbytes == 0
            freed = store.free(number * PAGE)
            assert store.nbytes == before - freed
        assert store.nbytes == sum(node.page.nbytes for node in store._used) <= most * PAGE
        for held, lease in running:
            assert lease.pages == pages_of(held, lease.slots)[: len(lease.pages)]
            found = store.lease(held, lease.mark, lease.slots)
            assert found.tokens >= lease.tokens
            store.release(found)
    for _, lease in running:
        store.release(lease)
    store.free(10**9)
    assert (len(store), store.nbytes) == (0, 0)


def test_the_least_recently_used_text_goes_first_from_its_end() -> None:
    store = PrefixStore(SLOTS, 4 * PAGE)
    old, new = [1, 1, 1, 1], [0, 0, 0, 0]
    for text in (old, new):
        lease = store.lease(text)
        store.add(lease, text, pages_of(text))
        store.release(lease)
    store.free(PAGE)
    assert (store.match(old), store.match(new)) == (2, 4)
    store.release(store.lease(old))  # used again: the other one is the older now
    store.free(PAGE)
    assert (store.match(old), store.match(new)) == (2, 2)


def test_what_does_not_fit_beside_held_pages_is_left_out() -> None:
    store = PrefixStore(SLOTS, 2 * PAGE)
    first, second = [0, 0, 0, 0], [1, 1, 1, 1]
    held = store.lease(first)
    store.add(held, first, pages_of(first))
    other = store.lease(second)
    store.add(other, second, pages_of(second))
    assert (store.match(first), store.match(second), other.pages) == (4, 0, [])


def test_a_lease_may_give_up_its_last_pages_and_keep_its_first() -> None:
    store, text = PrefixStore(SLOTS, 4 * PAGE), [0, 1, 0, 1, 0, 1]
    lease = store.lease(text)
    store.add(lease, text, pages_of(text))
    store.release(lease, keep=1)
    assert lease.tokens == SLOTS
    store.free(10**9)
    assert store.match(text) == SLOTS


def test_a_drafter_s_pages_go_with_the_last_of_them_and_take_up_no_room_then() -> None:
    store, mark = PrefixStore(SLOTS, 4 * PAGE), object()
    lease = store.lease([1, 1], mark, SLOTS)
    store.add(lease, [1, 1], pages_of([1, 1]))
    assert (store.match([1, 1]), store.lease([1, 1], object(), SLOTS).tokens) == (0, 0)
    store.release(lease)
    store.free(1)
    assert (store.nbytes, store._roots) == (0, {})
