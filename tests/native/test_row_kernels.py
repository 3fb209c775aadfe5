"""The sampler's work on one row gives the same bits in C++, with any instruction set, as in the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from outrider.sampling import rows

SIZES = (1, 2, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 1003, 20_000)
ISAS = ("portable", "avx2", "avx512", "neon")


def logits_of(size: int, seed: int = 0) -> torch.Tensor:
    row = 6 * torch.randn(size, generator=torch.Generator().manual_seed(seed))
    if size > 20:
        row[3], row[7], row[11] = -torch.inf, -200.0, row[12]
    return row


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest) -> str:
    """An instruction set that the C++ module has on this processor."""
    core = rows.core()
    if core is None:
        pytest.skip("the C++ module is of an earlier version")
    try:
        core.row_weigh(torch.zeros(1).numpy(), 1.0, 6.0, request.param)
    except ValueError:
        pytest.skip(f"this processor has no {request.param}")
    return str(request.param)


class OfIsa:
    """The C++ module with one instruction set."""

    def __init__(self, core: object, isa: str) -> None:
        self._core, self._isa = core, isa

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: getattr(self._core, name)(*arguments, isa=self._isa)


def everything(seed: int, size: int) -> list[object]:
    """All that can be asked of two rows."""
    row, other = logits_of(size, seed), logits_of(size, seed + 1)
    found: list[object] = []
    laws = []
    for coldness in (1.0, 1 / 0.7, 1e30):
        for logits in (row, other):
            top, whole = rows.weigh(logits, coldness)
            laws.append(rows.softmax(logits, top, coldness, whole))
            found += [top, whole, rows.entropy(logits, top, coldness, whole), laws[-1].tolist()]
            found += [rows.near(logits, reach) for reach in (0.0, 6.0, 500.0)]
            found += [rows.share(logits, token, top, coldness, whole) for token in (0, size // 2, size - 1)]
    for p, q in ((laws[0], laws[1]), (laws[2], laws[1])):
        found += [rows.mass(p), rows.excess(p, None, 1.0, [size - 1])]
        found += [rows.excess(p, q, scale, [0, size // 2]) for scale in (0.3, 1.0, 1.7)]
        found += [rows.race(p, key, count) for key in range(8) for count in (1, 2, 5)]
    return found


@pytest.mark.parametrize("size", SIZES)
def test_every_instruction_set_gives_the_bits_of_the_reference(
    isa: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sampled text must not depend on which implementation was at hand."""
    with monkeypatch.context() as patch:
        built = OfIsa(rows.core(), isa)
        patch.setattr(rows, "core", lambda: built)
        found = everything(size, size)
    monkeypatch.setattr(rows, "core", lambda: None)
    assert found == everything(size, size)


def test_what_does_not_fit_together_is_an_error(isa: str) -> None:
    core = OfIsa(rows.core(), isa)
    row = np.ones(20, dtype=np.float32)
    with pytest.raises(ValueError, match="one length"):
        core.row_excess(row, row[:19], 1.0, [], 6.0)
    for token in (-1, 20):
        with pytest.raises(ValueError, match="not in the row"):
            core.row_excess(row, row, 1.0, [3, token], 6.0)
    with pytest.raises(ValueError, match="as long as the row"):
        core.row_softmax(row, 1.0, 1.0, 20.0, row[:10].copy())
    with pytest.raises(ValueError, match="not in the row"):
        core.row_share(row, 20, 1.0, 1.0, 20.0)
    with pytest.raises(ValueError, match="no token"):
        core.row_race(row, 1, 0)
    for other in (row.astype(np.float64), row[::2], row.reshape(4, 5)):
        with pytest.raises(TypeError):
            core.row_weigh(other, 1.0, 6.0)
    with pytest.raises(ValueError, match="instruction set"):
        rows.core().row_weigh(row, 1.0, 6.0, "sse")  # type: ignore[union-attr]
    assert core.row_excess(row, None, 2.0, [4, 4, 0], 6.0) == 36


def test_of_a_row_with_nan_nothing_is_near_the_largest(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = OfIsa(rows.core(), isa)
    monkeypatch.setattr(rows, "core", lambda: built)
    for size in (1, 16, 17, 64, 200):
        for place in {0, size // 2, size - 1}:
            row = logits_of(size)
            assert rows.near(row, 1e9)[0]
            row[place] = torch.nan
            assert rows.near(row, 1e9) == ([], [])


def test_a_race_that_many_tokens_lead_for_a_moment_finds_room(isa: str) -> None:
    core = OfIsa(rows.core(), isa)
    p = np.exp(np.linspace(-80, 0, 3000)).astype(np.float32)
    for key in range(20):
        assert rows.race(torch.from_numpy(p), key, 700)[:5] == rows.race(torch.from_numpy(p), key, 5)
        assert len(core.row_race(p, key, 2000)) >= 2000
