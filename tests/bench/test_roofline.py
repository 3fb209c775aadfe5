from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import torch

from outrider.bench.roofline import Roofline, cache_bytes_seen, measure_roofline, roofline_document
from outrider.bench.table import roofline_table
from outrider.errors import CapabilityError, OptionError
from outrider.models.linear import KERNELS
from outrider.models.toy import ToyTarget
from outrider.native import why_missing
from tiny import RandomSource, tiny_config, tiny_decoder

MATRICES = 2 * (48 * (96 + 2 * 32) + 48 * 96 + 3 * 48 * 80) + 48 * 97
"""Weights of the layers and the head of `tiny_config()`."""

needs_core = pytest.mark.skipif(why_missing() is not None, reason="the native core was not built")

MEASURED = Roofline(
    weight_bytes=3_000_000,
    cache_bytes=1_000_000,
    read=(0.002, 0.001, 0.004),
    passes={1: (0.004, 0.002, 0.003), 8: (0.006, 0.005, 0.009)},
)


def test_passes_are_told_as_multiples_of_the_read() -> None:
    document = roofline_document(MEASURED, 256, "some kernel", {"command": "…"})
    assert document["kernel"] == "some kernel"
    assert document["read"] == {
        "bytes": 4_000_000,
        "weight_bytes": 3_000_000,
        "cache_bytes": 1_000_000,
        "milliseconds": pytest.approx(2),
        "best_milliseconds": pytest.approx(1),
        "gigabytes_per_second": pytest.approx(2),
        "best_gigabytes_per_second": pytest.approx(4),
    }
    one, eight = document["passes"]
    assert one == {
        "rows": 1,
        "milliseconds": pytest.approx(3),
        "best_milliseconds": pytest.approx(2),
        "gigabytes_per_second": pytest.approx(4 / 3),
        "over_read": pytest.approx(1.5),
        "best_over_read": pytest.approx(2),
        "ratio": 1,
    }
    assert (eight["rows"], eight["over_read"], eight["best_over_read"], eight["ratio"]) == (
        8,
        pytest.approx(3),
        pytest.approx(5),
        pytest.approx(2),
    )
    assert roofline_table(document).row_count == 3


def test_a_row_sees_the_cache_up_to_the_window() -> None:
    config = tiny_config()  # 2 layers, 2 heads of 16
    assert cache_bytes_seen(config, 10) == 2 * 10 * 2 * 2 * 16 * 4
    assert cache_bytes_seen(replace(config, windows=(4, None)), 10) == (4 + 10) * 2 * 2 * 16 * 4


def test_a_decoder_counts_the_bytes_its_kernels_hold() -> None:
    assert tiny_decoder(tiny_config(), "fp32").weight_bytes == 4 * MATRICES
    for weights, kernels in KERNELS.items():
        decoder = tiny_decoder(tiny_config(), weights)
        size = {kernel.kernel: kernel.item_bytes for kernel in kernels}[decoder.kernel]
        assert decoder.weight_bytes == size * MATRICES


@needs_core
@pytest.mark.parametrize(("weights", "size"), [("fp32", 4), ("fp16", 2), ("int8", 1)])
def test_the_native_decoder_counts_its_matrices_with_their_padding(weights: str, size: int) -> None:
    from outrider.native.decoder import NativeDecoder

    config = tiny_config()
    found = NativeDecoder(config, RandomSource(config), weights=weights).weight_bytes
    padded = MATRICES + 48 * (112 - 97)  # outputs to panels of 16
    assert size * padded <= found < 1.6 * size * padded


@needs_core
@pytest.mark.parametrize("threads", [1, 3])
def test_the_reader_reads_every_word_once(threads: int) -> None:
    from outrider.native._core import Reader

    for size in (1, 64, 65, 12345, 3_000_001):
        reader = Reader(size, threads)
        assert reader.nbytes == -(-size // 64) * 64
        for _ in range(2):
            assert reader.seconds() > 0
            assert reader.sum == reader.nbytes // 8


@needs_core
def test_a_reader_of_nothing_is_refused() -> None:
    from outrider.native._core import Reader

    for size, threads in ((0, 1), (64, 0), (64, 100_000)):
        with pytest.raises(ValueError, match="must be"):
            Reader(size, threads)


@needs_core
def test_reads_and_passes_are_measured_for_both_implementations() -> None:
    from outrider.native.decoder import NativeDecoder

    config = tiny_config()
    for target in (NativeDecoder(config, RandomSource(config)), tiny_decoder(config)):
        measured = measure_roofline(target, context=20, rows=(1, 4), repeats=3)
        assert measured.weight_bytes == target.weight_bytes
        assert measured.cache_bytes == cache_bytes_seen(config, 20)
        assert len(measured.read) == 3
        assert {rows: len(times) for rows, times in measured.passes.items()} == {1: 3, 4: 3}
        assert min(*measured.read, *measured.passes[1], *measured.passes[4]) > 0


@needs_core
def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(CapabilityError, match="lean decoder"):
        measure_roofline(ToyTarget(8, seed=1))
    decoder = tiny_decoder(tiny_config(context_limit=30))
    with pytest.raises(OptionError, match=r"30 tokens.*ends at 31"):
        measure_roofline(decoder, context=15)
    decoder.device = torch.device("cuda")
    with pytest.raises(CapabilityError, match="--device cpu"):
        measure_roofline(decoder, context=8)


def test_without_the_core_there_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "outrider.native._core", None)
    with pytest.raises(CapabilityError, match=r"C\+\+ core"):
        measure_roofline(tiny_decoder(tiny_config()))
