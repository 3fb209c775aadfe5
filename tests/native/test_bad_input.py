"""What does not fit is refused with a word about what and by how much, and leaves everything as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from outrider.cache.kv import KvCache
from outrider.errors import CapabilityError, OptionError
from outrider.loop.verify.pack import Part, pack
from outrider.models.base import Batch
from outrider.native import _core
from outrider.native.decoder import NativeDecoder
from outrider.native.kv import NativeCache
from outrider.types import DraftTree
from tiny import RandomSource, tiny_config

GOOD = pack(
    [Part(3, [5], DraftTree((1, 2, 3), (-1, 0, 0)), True), Part(2, [7, 8], DraftTree((4,), (-1,)), True)]
)
"""Rows 0 … 3 of one sequence with three tokens cached, rows 4 … 6 of another with two."""


@pytest.fixture(scope="module")
def model() -> NativeDecoder:
    config = tiny_config(context_limit=10)
    return NativeDecoder(config, RandomSource(config), weights="fp32")


@pytest.fixture
def caches(model: NativeDecoder) -> list[NativeCache]:
    made = [model.new_cache(), model.new_cache()]
    for count, cache in zip((3, 2), made, strict=True):
        model.forward(pack([Part(0, range(count), DraftTree(), False)]), [cache])
        cache.keep(range(count))
    return made


def changed(**columns: dict[int, int]) -> Batch:
    """Return the good batch with some entries changed."""
    new = {}
    for name, changes in columns.items():
        entries = list(getattr(GOOD, name))
        for at, value in changes.items():
            entries[at] = value
        new[name] = tuple(entries)
    return replace(GOOD, **new)


COLUMNS = ("tokens", "positions", "sequences", "parents")
SWAPPED = {name: tuple(getattr(GOOD, name)[row] for row in (0, 2, 1, 3, 4, 5, 6)) for name in COLUMNS}
TURNS = changed(sequences={1: 1}, parents={1: -1}, positions={1: 2})
BATCHES = {
    "empty": (Batch((), (), (), (), ()), "at least one row"),
    "a position too few": (replace(GOOD, positions=GOOD.positions[:-1]), "one entry a row"),
    "a parent too many": (replace(GOOD, parents=(*GOOD.parents, 5)), "one entry a row"),
    "a sequence too few": (replace(GOOD, sequences=GOOD.sequences[1:]), "one entry a row"),
    "token beyond the vocabulary": (changed(tokens={2: 97}), "token 97 of row 2 is outside .* of 97"),
    "negative token": (changed(tokens={0: -1}), "token -1 of row 0"),
    "enormous token": (changed(tokens={0: 2**32}), "token 4294967296 of row 0"),
    "parent of itself": (changed(parents={2: 2}), "parent 2 of row 2 is no earlier row of its sequence"),
    "parent forward": (changed(parents={1: 3}), "parent 3 of row 1 is no earlier row"),
    "parent of another sequence": (changed(parents={5: 3}), "parent 3 of row 5 is no earlier row of its seq"),
    "negative parent": (changed(parents={5: -2}), "parent -2 of row 5"),
    "rows out of order": (replace(GOOD, **SWAPPED), "parent 1 of row 1 is no earlier row"),
    "sequences in turns": (TURNS, "sequence 0 of row 2 is out of order"),
    "sequence without a cache": (changed(sequences={6: 2}), "sequence 2 of row 6 is out of order.* 2 caches"),
    "negative sequence": (changed(sequences={0: -1}), "sequence -1 of row 0 is out of order"),
    "position past the cache": (changed(positions={0: 4}), "position 4 of row 0 should be 3: .* holds 3"),
    "position inside the cache": (changed(positions={4: 1}), "position 1 of row 4 should be 2: .* holds 2"),
    "position of a node": (changed(positions={3: 6}), "position 6 of row 3 should be 5"),
    "negative position": (changed(positions={0: -3}), "position -3 of row 0 should be 3"),
    "enormous position": (changed(positions={0: 2**40}), "position 1099511627776 of row 0 should be 3"),
    "wanted row that is not there": (replace(GOOD, wanted=(0, 7)), "wanted row 7 is not in the batch"),
    "negative wanted row": (replace(GOOD, wanted=(-1,)), "wanted row -1 is not in the batch"),
}  # fmt: skip


def stays_as_it_was(model: NativeDecoder, caches: list[NativeCache], attempt: Callable[[], Any]) -> None:
    """Check that an attempt that fails changes nothing: lengths, pending rows, what the next pass gives."""
    before = model.forward(GOOD, caches)
    attempt()
    assert [cache.length for cache in caches] == [3, 2]
    caches[0].keep([0, 1, 3])  # the rows that were pending still are
    caches[0].truncate(3)
    assert torch.equal(model.forward(GOOD, caches), before)


@pytest.mark.parametrize("case", BATCHES)
def test_a_malformed_batch_is_refused_and_changes_nothing(
    case: str, model: NativeDecoder, caches: list[NativeCache]
) -> None:
    batch, says = BATCHES[case]

    def attempt() -> None:
        with pytest.raises(ValueError, match=says):
            model.forward(batch, caches)

    stays_as_it_was(model, caches, attempt)


def test_a_row_past_the_context_says_by_how_much(model: NativeDecoder, caches: list[NativeCache]) -> None:
    chain = DraftTree.chain((1,) * 9)

    def attempt() -> None:
        with pytest.raises(
            ValueError, match="position 10 of row 7 is 1 past the last of the model's 10 positions"
        ):
            model.forward(pack([Part(3, [5], chain, True)]), caches[:1])

    stays_as_it_was(model, caches, attempt)
    full = pack([Part(3, [5], DraftTree.chain((1,) * 6), True)])
    assert len(model.forward(full, caches[:1])) == 7  # the last position itself can be used


def test_a_row_may_be_wanted_twice_and_more_often_than_there_are_rows(
    model: NativeDecoder, caches: list[NativeCache]
) -> None:
    """The room for activations was once made for the rows of the batch, and this wrote past its end."""
    once = model.forward(GOOD, caches)
    order = [6, 0, 0, 3] * 40
    often = model.forward(replace(GOOD, wanted=tuple(GOOD.wanted[i] for i in [5, 0, 0, 3] * 40)), caches)
    assert GOOD.wanted == (0, 1, 2, 3, 5, 6)
    assert torch.equal(often, once[[GOOD.wanted.index(row) for row in order]])


def test_caches_that_do_not_belong_are_refused(model: NativeDecoder, caches: list[NativeCache]) -> None:
    others = [NativeCache(3, 2, 16), NativeCache(2, 1, 16), NativeCache(2, 2, 18)]

    def attempt() -> None:
        for other in others:
            with pytest.raises(ValueError, match="cache is of another model"):
                model.forward(GOOD, [caches[0], other])
        with pytest.raises(ValueError, match="given twice"):
            model.forward(GOOD, [caches[0], caches[0]])
        with pytest.raises(ValueError, match="out of order"):
            model.forward(GOOD, caches[:1])
        with pytest.raises(CapabilityError, match="new_cache"):
            model.forward(GOOD, [caches[0], KvCache(2, 2, 16, torch.device("cpu"))])

    stays_as_it_was(model, caches, attempt)
    model.forward(GOOD, [*caches, model.new_cache()])  # one that no row asks for is let be


def test_only_a_path_of_pending_rows_can_be_kept(model: NativeDecoder, caches: list[NativeCache]) -> None:
    def attempt() -> None:
        for rows in ([1], [0, 0], [0, 4], [-1], [0, 2, 3], [3, 0], [0, 1, 2, 3, 4]):
            with pytest.raises(
                ValueError, match="does not continue the path of kept rows; 4 rows are pending"
            ):
                caches[0].keep(rows)

    stays_as_it_was(model, caches, attempt)
    with pytest.raises(ValueError, match="0 rows are pending"):
        model.new_cache().keep([0])


def test_a_cache_is_cut_only_to_what_it_has(model: NativeDecoder, caches: list[NativeCache]) -> None:
    def attempt() -> None:
        for length in (4, -1, 2**31 - 1):
            with pytest.raises(ValueError, match=f"cannot truncate to {length} of 3 tokens"):
                caches[0].truncate(length)

    stays_as_it_was(model, caches, attempt)


def test_layers_that_are_not_there_or_named_twice_are_refused(
    model: NativeDecoder, caches: list[NativeCache]
) -> None:
    def attempt() -> None:
        for layers in ([0, 0], [2], [-1]):
            with pytest.raises(OptionError, match=f"layer {layers[0]} is named twice or not among"):
                model.run(GOOD, caches, layers=layers)
        for captured in ([1], [0, 0], [5]):
            with pytest.raises(
                OptionError, match=f"captured layer {captured[0]} is named twice or not among"
            ):
                model.run(GOOD, caches, layers=[0], captured=captured)

    stays_as_it_was(model, caches, attempt)


def arguments(model: NativeDecoder, caches: list[NativeCache]) -> dict[str, Any]:
    """Return the arguments that the core takes for the good batch."""
    columns = {name: getattr(GOOD, name) for name in (*COLUMNS, "wanted")}
    logits = np.zeros((len(GOOD.wanted), 97), np.float32)
    return {**columns, "caches": [cache.core for cache in caches], "threads": 1, "logits": logits}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"threads": 0}, "threads must be from 1 to 1024"),
        ({"threads": 100_000}, "threads must be from 1 to 1024"),
        ({"logits": np.zeros((5, 97), np.float32)}, r"logits must be \[wanted, vocabulary\]"),
        ({"layers": [1, 1]}, "layer 1 is there twice"),
        ({"layers": [2]}, "layer 2 is there twice or not among 2"),
        ({"layers": [0], "captured": [1], "hidden": np.zeros((7, 48), np.float32)}, "layer 1 is not run"),
        ({"captured": [1]}, r"hidden must be \[captured, rows, hidden\]"),
        (
            {"captured": [1], "hidden": np.zeros((6, 48), np.float32)},
            r"hidden must be \[captured, rows, hidden\]",
        ),
        ({"caches": []}, "out of order"),
    ],
)
def test_the_core_refuses_what_does_not_fit_by_itself(
    wrong: dict[str, Any], says: str, model: NativeDecoder, caches: list[NativeCache]
) -> None:
    """A captured layer that is not run once left its hidden states as they lay in memory."""

    def attempt() -> None:
        with pytest.raises(ValueError, match=says):
            model._core.run(**{**arguments(model, caches), **wrong})

    stays_as_it_was(model, caches, attempt)


@pytest.mark.parametrize(
    "logits",
    [np.zeros((6, 97)), np.zeros((6, 97), np.float32).T, np.zeros((6, 194), np.float32)[:, ::2]],
    ids=["float64", "columns first", "with gaps"],
)
def test_room_that_cannot_be_written_to_is_refused_and_not_copied(
    logits: np.ndarray, model: NativeDecoder, caches: list[NativeCache]
) -> None:
    """Results once went into a converted copy, and the caller's array stayed as it was."""
    with pytest.raises(TypeError, match="logits"):
        model._core.run(**{**arguments(model, caches), "logits": logits})
    with pytest.raises(TypeError, match="out"):
        _core.pack(np.eye(97, dtype=np.float32), "fp32").read(0, logits[0])


def test_values_of_a_cache_are_read_only_where_there_are_any(caches: list[NativeCache]) -> None:
    core, room = caches[0].core, np.zeros(16, np.float32)
    core.read(1, 1, 2, room, room)
    for place in ((2, 0, 0), (0, 2, 0), (0, 0, 3), (-1, 0, 0)):
        with pytest.raises(ValueError, match="no such slot"):
            core.read(*place, room, room)
    for key, value in ((room[:4], room), (room, np.zeros(17, np.float32))):
        with pytest.raises(ValueError, match=r"key and value must be \[dim\]"):
            core.read(0, 0, 0, key, value)


def test_a_head_takes_states_of_the_model_s_width_only(model: NativeDecoder) -> None:
    with pytest.raises(ValueError, match=r"hidden must be \[rows, hidden\]"):
        model.head(torch.zeros(3, model.hidden_size + 1))
    with pytest.raises(ValueError, match=r"logits must be \[rows, vocabulary\]"):
        model._core.head(np.zeros((2, 48), np.float32), 1, np.zeros((1, 97), np.float32))
    with pytest.raises(ValueError, match="threads must be from 1 to 1024"):
        model._core.head(np.zeros((1, 48), np.float32), 0, np.zeros((1, 97), np.float32))
