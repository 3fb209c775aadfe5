"""Thousands of random models and batches, most of them malformed: an error or the right rows, never a crash.

`OUTRIDER_FUZZ` says how many; the oracle is a checker of its own, and a row's text computed alone.
"""

from __future__ import annotations

import os
import random
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.native import _core
from tiny_blocks import KINDS, random_blocks

EXAMPLES = int(os.environ.get("OUTRIDER_FUZZ", "1000"))
WILD = (-(2**63), -(2**31) - 1, -2, -1, 0, 1, 2, 5, 11, 2**24, 2**31, 2**32, 2**40, 2**63 - 1)


def _runs(isa: str) -> bool:
    try:
        _core.make_decoder(1, 1, 1, 1, 1, 2, 1e-5, isa)
    except ValueError:
        return False
    return True


ISAS = [None, *(isa for isa in ("portable", "avx2", "avx512", "amx", "neon") if _runs(isa))]


@dataclass(frozen=True)
class Shape:
    vocab: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    dim: int
    layers: int
    limit: int


class Model:
    def __init__(self, seed: int) -> None:
        chance, numbers = random.Random(seed), np.random.default_rng(seed)
        kv_heads = chance.randint(1, 3)
        self.shape = s = Shape(
            vocab=chance.randint(1, 40),
            hidden=chance.choice([chance.randint(1, 40), 32, 64, 256]),
            inner=chance.choice([chance.randint(1, 70), 32, 160, 256]),
            heads=kv_heads * chance.choice([chance.randint(1, 9), 4, 8]),
            kv_heads=kv_heads,
            dim=chance.choice([2 * chance.randint(1, 12), 8, 32]),
            layers=chance.randint(1, 3),
            limit=chance.choice([1, 9, 70]),
        )

        def matrix(outputs: int, inputs: int) -> _core.Matrix:
            kinds = [kind for kind in KINDS if inputs % (256 if kind.endswith("_K") else 32) == 0]
            if kinds and chance.random() < 0.7:
                kind = chance.choice(kinds)
                raw = random_blocks(kind, (outputs, inputs), numbers)
                return _core.pack_blocks(raw, outputs, inputs, kind.lower())
            values = numbers.normal(0, 0.5, (outputs, inputs)).astype(np.float32)
            return _core.pack(values, chance.choice(["fp32", "fp16", "bf16", "int8"]))

        def vector(size: int) -> np.ndarray:
            return numbers.normal(1, 0.3, size).astype(np.float32)

        self.core = _core.make_decoder(
            s.vocab,
            s.hidden,
            s.inner,
            s.heads,
            s.kv_heads,
            s.dim,
            1e-5,
            chance.choice(ISAS),
            bytes=chance.random() < 0.5,
        )
        queries, keys = s.heads * s.dim, s.kv_heads * s.dim
        sizes = {
            "q": (queries, s.hidden),
            "k": (keys, s.hidden),
            "v": (keys, s.hidden),
            "o": (s.hidden, queries),
        }
        sizes |= {"gate": (s.inner, s.hidden), "up": (s.inner, s.hidden), "down": (s.hidden, s.inner)}
        for _ in range(s.layers):
            parts: dict[str, object] = {name: matrix(*size) for name, size in sizes.items()}
            parts |= {"input_norm": vector(s.hidden), "mlp_norm": vector(s.hidden)}
            parts |= {f"{name}_bias": vector(sizes[name][0]) for name in sizes if chance.random() < 0.3}
            parts |= {f"{name}_norm": vector(s.dim) for name in "qk" if chance.random() < 0.3}
            self.core.add_layer(parts, chance.choice([0, 0, 1, 3, 20]))
        self.core.set_top(matrix(s.vocab, s.hidden), vector(s.hidden), matrix(s.vocab, s.hidden))
        angles = np.outer(np.arange(s.limit), 0.5 ** np.arange(s.dim // 2)).astype(np.float32)
        self.core.set_rotation(np.cos(angles), np.sin(angles))

    def new_cache(self) -> _core.Cache:
        return _core.Cache(self.shape.layers, self.shape.kv_heads, self.shape.dim)


@dataclass
class Call:
    """The arguments of a pass, and the texts that its caches hold."""

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    caches: list[int] = field(default_factory=list)  # which caches; −1 for one of another model
    threads: int = 1
    layers: list[int] | None = None
    captured: list[int] = field(default_factory=list)
    spare: int = 0  # floats that the logits have too many


def problem(call: Call, shape: Shape, lengths: list[int]) -> str | None:
    """Say what is wrong with a call; None where nothing is."""
    rows = len(call.tokens)
    if not rows or {len(call.positions), len(call.sequences), len(call.parents)} != {rows}:
        return "entries"
    if -1 in call.caches or len(set(call.caches)) < len(call.caches):
        return "caches"
    layers = list(range(shape.layers)) if call.layers is None else call.layers
    for chosen, known in ((layers, range(shape.layers)), (call.captured, layers)):
        if len(set(chosen)) < len(chosen) or not set(chosen) <= set(known):
            return "layers"
    if not 1 <= call.threads <= 1024 or call.spare:
        return "threads or room"
    last, first = -1, 0
    for row in range(rows):
        sequence, parent = call.sequences[row], call.parents[row]
        if not max(last, 0) <= sequence < len(call.caches):
            return "sequence"
        if sequence != last:
            last, first = sequence, row
        if not 0 <= call.tokens[row] < shape.vocab or not (parent == -1 or first <= parent < row):
            return "token or parent"
        expected = lengths[call.caches[sequence]] if parent == -1 else call.positions[parent] + 1
        if call.positions[row] != expected or expected >= shape.limit:
            return "position"
    return None if all(0 <= row < rows for row in call.wanted) else "wanted"


def execute(model: Model, call: Call, caches: list[_core.Cache]) -> tuple[np.ndarray, np.ndarray]:
    logits = np.full(len(call.wanted) * model.shape.vocab + call.spare, np.nan, np.float32)
    hidden = np.full((len(call.captured), len(call.tokens), model.shape.hidden), np.nan, np.float32)
    given = [caches[index] for index in call.caches]
    lists = (call.tokens, call.positions, call.sequences, call.parents, call.wanted)
    model.core.run(*lists, given, call.threads, logits, call.layers, call.captured, hidden)
    return logits.reshape(len(call.wanted), model.shape.vocab), hidden


def chain(base: int, tokens: list[int]) -> Call:
    """Return the call that reads tokens after `base` others into the first cache."""
    rows = len(tokens)
    return Call(
        tokens, list(range(base, base + rows)), [0] * rows, list(range(-1, rows - 1)), [rows - 1], [0]
    )


def good_call(chance: random.Random, shape: Shape, lengths: list[int]) -> Call:
    call = Call(caches=list(range(len(lengths))))
    chance.shuffle(call.caches)
    for sequence, cache in enumerate(call.caches):
        first = len(call.tokens)
        for _ in range(chance.choice([0, 1, 1, 2, 3, 5, 8, 20])):
            row = len(call.tokens)
            earlier = [-1, *(r for r in range(first, row) if call.positions[r] + 1 < shape.limit)]
            parent = earlier[-1] if chance.random() < 0.5 else chance.choice(earlier)
            position = lengths[cache] if parent == -1 else call.positions[parent] + 1
            if position < shape.limit:
                call.tokens.append(chance.randrange(shape.vocab))
                call.positions.append(position)
                call.sequences.append(sequence)
                call.parents.append(parent)
    if call.tokens:
        call.wanted = [chance.randrange(len(call.tokens)) for _ in range(chance.choice([0, 1, 2, 9, 40]))]
    if chance.random() < 0.3:
        call.layers = chance.sample(range(shape.layers), chance.randint(0, shape.layers))
    run = range(shape.layers) if call.layers is None else call.layers
    call.captured = chance.sample(run, chance.randint(0, len(run))) if chance.random() < 0.3 else []
    call.threads = chance.choice([1] * 20 + [2, 3])
    return call


def spoil(chance: random.Random, call: Call) -> None:
    """Change something, for the worse as a rule."""
    lists = (call.tokens, call.positions, call.sequences, call.parents, call.wanted)
    chosen = chance.choice([*lists, call.captured])
    kind = chance.choice([0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 4, 4, 4, 5, 6])
    if kind == 0 and chosen:
        chosen[chance.randrange(len(chosen))] = chance.choice(
            WILD if chosen is not call.captured else WILD[2:9]
        )
    elif kind == 1 and chosen:
        at = chance.randrange(len(chosen))
        chosen[at] = max(WILD[0], min(WILD[-1], chosen[at] + chance.choice([-1, 1])))
    elif kind == 2:
        chosen.insert(chance.randint(0, len(chosen)), chance.choice([0, 1, -1]))
    elif kind == 3 and chosen:
        chosen.pop()
    elif kind == 4 and len(call.tokens) > 1:  # rows out of order
        one, other = chance.sample(range(len(call.tokens)), 2)
        for entries in lists[:4]:
            if max(one, other) < len(entries):
                entries[one], entries[other] = entries[other], entries[one]
    elif kind == 5:
        call.caches = chance.choice(
            [call.caches[:-1], [*call.caches, *call.caches[:1]], [-1, *call.caches[1:]]]
        )
    else:
        call.threads = chance.choice([0, -1, 1025, 2**31 - 1]) if chance.random() < 0.3 else call.threads
        call.spare = chance.choice([0, 1]) if call.wanted else 0
        call.layers = chance.choice([call.layers, [0, 0], [-1], [0, 7], []])


@lru_cache(maxsize=256)
def model_of(seed: int) -> Model:
    return Model(seed)


def text_of(call: Call, row: int) -> list[int]:
    path = []
    while row != -1:
        path.append(call.tokens[row])
        row = call.parents[row]
    return path[::-1]


@given(seed=st.integers(0, 2**40), which=st.integers(0, 199))
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_batch_gets_the_right_rows_or_an_error(seed: int, which: int) -> None:
    chance, model = random.Random(seed), model_of(which)
    shape = model.shape
    texts = [
        [chance.randrange(shape.vocab) for _ in range(chance.choice([0, 1, 5, 66]))][: shape.limit]
        for _ in range(chance.choice([0, *[1, 2, 3] * 9]))
    ]
    good = good_call(chance, shape, [len(text) for text in texts])
    caches = [model.new_cache() for _ in texts]
    for text, cache in zip(texts, caches, strict=True):
        if text:
            call = chain(0, text)
            call.layers = good.layers
            execute(model, call, [cache])
            cache.keep(range(len(text)))
    call = deepcopy(good)
    for _ in range(chance.choice([0, 1, 1, 2])):
        spoil(chance, call)
    caches.append(_core.Cache(shape.layers, shape.kv_heads, shape.dim + 2))  # −1: fits another model
    lengths = [len(text) for text in texts]
    wrong = problem(call, shape, lengths)
    if wrong is None:
        check_result(chance, model, call, caches, texts)
        return
    sound = problem(good, shape, lengths) is None
    if sound:
        before, _ = execute(model, good, caches)
    with pytest.raises(ValueError, match=r"\w"):
        execute(model, call, caches)
    assert [cache.length for cache in caches[:-1]] == lengths
    if sound:
        first = next(cache for i, cache in enumerate(good.caches) if i == good.sequences[0])
        caches[first].keep([0])  # what was pending still is
        caches[first].truncate(lengths[first])
        after, _ = execute(model, good, caches)
        assert np.array_equal(before, after)


def check_result(
    chance: random.Random, model: Model, call: Call, caches: list[_core.Cache], texts: list[list[int]]
) -> None:
    logits, hidden = execute(model, call, caches)
    assert np.isfinite(logits).all()
    assert np.isfinite(hidden).all()
    if not call.wanted:
        return
    index = chance.randrange(len(call.wanted))
    row = call.wanted[index]
    prompt = texts[call.caches[call.sequences[row]]]
    alone = chain(0, [*prompt, *text_of(call, row)])
    alone.layers, alone.captured = call.layers, call.captured
    expected, states = execute(model, alone, [model.new_cache()])
    assert np.array_equal(logits[index], expected[0])
    assert np.array_equal(hidden[:, row], states[:, -1])
