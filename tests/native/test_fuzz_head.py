"""Random heads and batches that grow, most of them malformed: an error or the right rows, never a crash.

`OUTRIDER_FUZZ` says how many; the oracle is a checker of its own, and a row's path computed alone.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace
from functools import lru_cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.loop.verify.pack import Part, pack
from outrider.models.base import Batch
from outrider.native.head import WEIGHTS, HeadOutput, NativeHead
from outrider.native.kv import NativeCache
from outrider.types import DraftTree
from plain_head import plain_head

EXAMPLES = int(os.environ.get("OUTRIDER_FUZZ", "1000")) // 4
WILD = (-(2**63), -(2**31) - 1, -20, -4, -3, -2, -1, 0, 1, 2, 5, 2**31, 2**40, 2**63 - 1)
COLUMNS = ("tokens", "positions", "sequences", "parents", "wanted")


@dataclass
class Rows:
    """The pending rows of one sequence: how long the committed text is, and what each row continues."""

    length: int
    parents: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    inputs: list[torch.Tensor] = field(default_factory=list)

    def path(self, row: int) -> list[int]:
        path = []
        while row != -1:
            path.append(row)
            row = self.parents[row]
        return path[::-1]


@lru_cache(maxsize=256)
def head_of(seed: int) -> NativeHead:
    chance = random.Random(seed)
    kv_heads = chance.randint(1, 3)
    plain = plain_head(
        hidden=chance.choice([chance.randint(1, 40), 32, 64]),
        inner=chance.choice([chance.randint(1, 70), 32]),
        heads=kv_heads * chance.randint(1, 5),
        kv_heads=kv_heads,
        head_dim=2 * chance.randint(1, 12),
        vocab=chance.randint(1, 40),
        names=chance.randint(1, 40),
        features=3 * chance.randint(1, 40),
        layers=chance.randint(1, 2),
        extras=chance.random() < 0.5,
        fusion_norm=chance.random() < 0.5,
        norm_parts=chance.choice([1, 3]),
        norm_before_residual=chance.random() < 0.5,
        feed_normed=chance.random() < 0.5,
        seed=seed,
    )
    shape = replace(plain.shape, context_limit=chance.choice([9, 80, 600]))
    weights = chance.choice(WEIGHTS)
    return NativeHead(shape, plain.layers, plain.top, plain.embedding, weights=weights)


def text(head: NativeHead, length: int) -> NativeCache:
    cache = head.new_cache()
    if length:
        tokens = [token % head.shape.vocab_size for token in range(length)]
        features = torch.arange(float(length))[:, None].expand(-1, head.features or 0).sin()
        head.run(pack([Part(0, tokens, DraftTree(), False)]), [cache], features=features)
        cache.keep(range(length))
    return cache


def random_batch(chance: random.Random, head: NativeHead, held: list[Rows]) -> Batch:
    """Return a batch that fits what is held, perhaps without a row."""
    columns: dict[str, list[int]] = {name: [] for name in COLUMNS}
    for sequence, rows in enumerate(held):
        places = {-1: rows.length - 1}
        places |= {-2 - row: rows.length + len(rows.path(row)) - 1 for row in range(len(rows.parents))}
        for _ in range(chance.choice([0, 1, 2, 3, 8, 20])):
            parent = max(places) if chance.random() < 0.4 else chance.choice(list(places))
            if places[parent] + 1 < head.shape.context_limit:
                row = len(columns["tokens"])
                places[row] = places[parent] + 1
                for name, value in zip(
                    COLUMNS,
                    (chance.randrange(head.shape.vocab_size), places[row], sequence, parent),
                    strict=False,
                ):
                    columns[name].append(value)
    count = len(columns["tokens"])
    columns["wanted"] = chance.choices(range(count), k=chance.choice([0, 1, 2, 9])) if count else []
    return Batch(**{name: tuple(values) for name, values in columns.items()})


def spoiled(chance: random.Random, batch: Batch) -> Batch:
    name = chance.choice(COLUMNS)
    values = list(getattr(batch, name))
    kind = chance.random()
    if values and kind < 0.8:
        values[chance.randrange(len(values))] = chance.choice(WILD)
    elif values and kind < 0.9:
        values.pop()
    else:
        values.insert(chance.randint(0, len(values)), chance.choice([0, -1, -2]))
    return replace(batch, **{name: tuple(values)})


def fits(batch: Batch, head: NativeHead, held: list[Rows]) -> bool:
    count = len(batch.tokens)
    if not count or {len(getattr(batch, name)) for name in COLUMNS[:4]} != {count}:
        return False
    first = last = 0
    for row, (token, position, sequence, parent) in enumerate(
        zip(batch.tokens, batch.positions, batch.sequences, batch.parents, strict=True)
    ):
        if not 0 <= token < head.shape.vocab_size or not last <= sequence < len(held):
            return False
        if row == 0 or sequence != last:
            first, last = row, sequence
        rows = held[sequence]
        if parent >= 0:
            if not first <= parent < row:
                return False
            expected = batch.positions[parent] + 1
        elif -2 - parent >= len(rows.parents):
            return False
        else:
            expected = rows.length + len(rows.path(-2 - parent) if parent < -1 else [])
        if position != expected or position >= head.shape.context_limit:
            return False
    return all(0 <= row < count for row in batch.wanted)


def add(held: list[Rows], batch: Batch, inputs: torch.Tensor) -> list[int]:
    """Let the batch's rows be held; return each row's number among those of its sequence."""
    numbers: list[int] = []
    for row, parent in enumerate(batch.parents):
        rows = held[batch.sequences[row]]
        above = numbers[parent] if parent >= 0 else -1 if parent == -1 else -2 - parent
        numbers.append(len(rows.parents))
        rows.parents.append(above)
        rows.tokens.append(batch.tokens[row])
        rows.inputs.append(inputs[row])
    return numbers


@given(seed=st.integers(0, 2**40), which=st.integers(0, 99))
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_batch_that_grows_gets_the_right_rows_or_an_error(seed: int, which: int) -> None:
    chance, head = random.Random(seed), head_of(which)
    lengths = [
        min(chance.choice([0, 1, 5, 66]), head.shape.context_limit) for _ in range(chance.randint(1, 3))
    ]
    caches, held = [text(head, length) for length in lengths], [Rows(length) for length in lengths]
    width = head.shape.hidden_size
    for _ in range(chance.randint(1, 4)):
        good = batch = random_batch(chance, head, held)
        for _ in range(chance.choice([0, 0, 1, 2])):
            batch = spoiled(chance, batch)
        inputs = torch.randn(len(batch.tokens), width, generator=torch.Generator().manual_seed(seed % 999))
        if fits(batch, head, held):
            output = head.run(batch, caches, inputs=inputs, grows=True)
            numbers = add(held, batch, inputs)
            check(chance, head, batch, output, held, numbers)
            continue
        with pytest.raises(ValueError, match=r"\w"):
            head.run(batch, caches, inputs=inputs, grows=True)
        assert [cache.length for cache in caches] == lengths
        if fits(good, head, held):  # what was pending still is
            inputs = inputs.new_ones(len(good), width)
            output = head.run(good, caches, inputs=inputs, grows=True)
            check(chance, head, good, output, held, add(held, good, inputs))


def check(
    chance: random.Random,
    head: NativeHead,
    batch: Batch,
    output: HeadOutput,
    held: list[Rows],
    numbers: list[int],
) -> None:
    """Compare one wanted row with its path in a pass of its own."""
    assert torch.isfinite(output.logits).all()
    if not batch.wanted:
        return
    index = chance.randrange(len(batch.wanted))
    row = batch.wanted[index]
    rows = held[batch.sequences[row]]
    path = rows.path(numbers[row])
    alone = pack([Part(rows.length, [rows.tokens[at] for at in path], DraftTree(), True)])
    inputs = torch.stack([rows.inputs[at] for at in path])
    expected = head.run(alone, [text(head, rows.length)], inputs=inputs)
    assert torch.equal(output.logits[index], expected.logits[0])
    assert torch.equal(output.states[index], expected.states[0])
