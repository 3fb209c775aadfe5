"""A tree of a head grows level by level: rows that are pending stay, and nothing is run twice."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.loop.verify.pack import Part, pack
from outrider.models.base import Batch
from outrider.native.head import NativeHead
from outrider.native.kv import NativeCache
from outrider.types import DraftTree
from pass_conformance import random_tree
from plain_head import plain_head

PLAIN = plain_head(layers=2)
HEAD = NativeHead(PLAIN.shape, PLAIN.layers, PLAIN.top, PLAIN.embedding, weights="fp16")
H = 48


def text(length: int, seed: int = 0) -> NativeCache:
    """Return a cache that holds a text of some length."""
    cache, inputs = HEAD.new_cache(), rows(length, seed)
    HEAD.run(
        pack([Part(0, [token % 97 for token in range(length)], DraftTree(), False)]), [cache], inputs=inputs
    )
    cache.keep(range(length))
    return cache


def rows(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, H, generator=torch.Generator().manual_seed(seed))


def part_of(whole: Batch, chosen: list[int], before: list[int]) -> Batch:
    """Return rows of a batch as a batch that grows from those before, of which the caches hold the rows."""
    held: dict[int, list[int]] = {}
    for row in before:
        held.setdefault(whole.sequences[row], []).append(row)

    def parent(row: int) -> int:
        above = whole.parents[row]
        if above == -1:
            return -1
        return chosen.index(above) if above in chosen else -2 - held[whole.sequences[row]].index(above)

    return Batch(
        tuple(whole.tokens[row] for row in chosen),
        tuple(whole.positions[row] for row in chosen),
        tuple(whole.sequences[row] for row in chosen),
        tuple(parent(row) for row in chosen),
        tuple(range(len(chosen))),
    )


@given(seed=st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_a_tree_in_several_passes_has_the_rows_of_one_pass(seed: int) -> None:
    """Any cut that runs no row before its parent, with parents in earlier passes or in the same one."""
    chance = random.Random(seed)
    lengths = [chance.choice([1, 3, 62, 64, 130]) for _ in range(chance.randint(1, 3))]
    trees = [random_tree(chance, chance.choice([0, 1, 5, 12, 80])) for _ in lengths]
    for index in chance.sample(range(len(trees)), chance.randint(0, len(trees))):
        trees[index] = DraftTree.chain(trees[index].tokens)
    whole = pack([Part(length, [5], tree, True) for length, tree in zip(lengths, trees, strict=True)])
    inputs = rows(len(whole), seed % 1000)
    expected = HEAD.run(whole, [text(length) for length in lengths], inputs=inputs)
    caches = [text(length) for length in lengths]
    passes = [0] * len(whole)
    for row in range(len(whole)):
        first = 0 if whole.parents[row] == -1 else passes[whole.parents[row]]
        passes[row] = chance.randint(first, first + 2)
    before: list[int] = []
    for number in range(max(passes) + 1):
        chosen = [row for row in range(len(whole)) if passes[row] == number]
        if not chosen:
            continue
        output = HEAD.run(part_of(whole, chosen, before), caches, inputs=inputs[chosen], grows=bool(before))
        before += chosen
        assert torch.equal(output.logits, expected.logits[chosen])
        assert torch.equal(output.states, expected.states[chosen])
    check_kept(chance, whole, before, caches, inputs)


def check_kept(
    chance: random.Random, whole: Batch, before: list[int], caches: list[NativeCache], inputs: torch.Tensor
) -> None:
    """Check that a path through rows of several passes is kept as if it had been read at once."""
    for sequence, cache in enumerate(caches):
        own = [row for row in before if whole.sequences[row] == sequence]
        path = [chance.choice(own)]
        while whole.parents[path[0]] != -1:
            path.insert(0, whole.parents[path[0]])
        fresh, start = text(cache.length), cache.length
        cache.keep([own.index(row) for row in path])
        tokens = [whole.tokens[row] for row in path]
        HEAD.run(pack([Part(start, tokens, DraftTree(), False)]), [fresh], inputs=inputs[path])
        fresh.keep(range(len(path)))
        last = pack([Part(fresh.length, [1], DraftTree(), True)])
        ours, theirs = (HEAD.run(last, [each], inputs=rows(1)) for each in (cache, fresh))
        assert torch.equal(ours.logits, theirs.logits)


def test_a_path_that_grew_is_kept_as_if_it_had_been_read_at_once() -> None:
    inputs, cache, other = rows(6, 3), text(62), text(62)
    tokens = (5, 6, 7, 8)
    chain = Batch(tokens, (62, 63, 64, 65), (0,) * 4, (-1, 0, 1, 2), ())
    HEAD.run(chain, [other], inputs=inputs[[0, 1, 3, 5]])
    other.keep(range(4))
    HEAD.run(Batch((5,), (62,), (0,), (-1,), ()), [cache], inputs=inputs[:1])
    HEAD.run(Batch((6, 9), (63, 63), (0, 0), (-2, -2), ()), [cache], inputs=inputs[1:3], grows=True)
    HEAD.run(
        Batch((7, 9, 8), (64, 64, 65), (0,) * 3, (-3, -4, 0), ()), [cache], inputs=inputs[3:], grows=True
    )
    cache.keep([0, 1, 3, 5])
    assert cache.length == other.length == 66
    last = Batch((1,), (66,), (0,), (-1,), (0,))
    ours, theirs = (HEAD.run(last, [each], inputs=inputs[:1]) for each in (cache, other))
    assert torch.equal(ours.logits, theirs.logits)


GOOD = Batch((1, 2), (4, 5), (0, 0), (-2, 0), (0, 1))
"""Two rows after the first of two that are pending."""


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"parents": (-4, 0)}, "parent -4 of row 0 is no earlier row of its sequence"),
        ({"parents": (-(2**63), 0)}, "parent -9223372036854775808 of row 0 is no earlier row"),
        ({"parents": (-3, 0)}, "position 4 of row 0 should be 5"),
        ({"parents": (-2, -2)}, "position 5 of row 1 should be 4"),
        ({"parents": (-1, 0)}, "position 4 of row 0 should be 3"),
        ({"wanted": (2,)}, "wanted row 2 is not in the batch"),
        ({"grows": False}, "parent -2 of row 0 is no earlier row"),
    ],
)
def test_rows_that_grow_from_what_is_not_there_are_refused_and_change_nothing(
    wrong: dict[str, Any], says: str
) -> None:
    cache, inputs = text(3), rows(4, 1)
    HEAD.run(Batch((7, 8), (3, 4), (0, 0), (-1, 0), ()), [cache], inputs=inputs[:2])
    options = {"grows": True, **{name: wrong[name] for name in wrong if name == "grows"}}
    batch = replace(GOOD, **{name: wrong[name] for name in wrong if name != "grows"})
    with pytest.raises(ValueError, match=says):
        HEAD.run(batch, [cache], inputs=inputs[2:], **options)
    HEAD.run(GOOD, [cache], inputs=inputs[2:], grows=True)
    cache.keep([0, 2, 3])
    assert cache.length == 6


def test_without_a_word_about_it_what_is_pending_makes_room() -> None:
    cache, inputs = text(3), rows(2, 1)
    root = Batch((7,), (3,), (0,), (-1,), (0,))
    first = HEAD.run(root, [cache], inputs=inputs[:1])
    HEAD.run(Batch((8,), (3,), (0,), (-1,), (0,)), [cache], inputs=inputs[1:], grows=True)
    again = HEAD.run(root, [cache], inputs=inputs[:1])
    assert torch.equal(first.logits, again.logits)
    with pytest.raises(ValueError, match="1 rows are pending"):
        cache.keep([1])
