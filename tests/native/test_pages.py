"""Caches that begin with another one's pages: the same bits, and nobody writes to somebody else's keys."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from outrider.loop.verify.pack import Part, pack
from outrider.models.decoder import Decoder
from outrider.native.decoder import NativeDecoder
from outrider.types import DraftTree
from tiny import RandomSource, tiny_config

CONFIG = tiny_config()
TEXT = [(7 * i + i // 5) % CONFIG.vocab_size for i in range(150)]


@pytest.fixture(scope="module", params=["native", "torch"])
def model(request: pytest.FixtureRequest) -> Any:
    source = RandomSource(CONFIG)
    if request.param == "native":
        return NativeDecoder(CONFIG, source, weights="fp32")
    return Decoder(CONFIG, source, weights="fp32", device=torch.device("cpu"))


def run(model: Any, cache: Any, tokens: list[int], tree: DraftTree | None = None) -> torch.Tensor:
    logits = model.forward(pack([Part(cache.length, tokens, tree or DraftTree(), True)]), [cache])
    cache.keep(range(len(tokens)))
    return logits


def test_a_text_that_begins_with_shared_pages_goes_on_with_the_same_bits(model: Any) -> None:
    first = model.new_cache()
    expected = run(model, first, TEXT)
    second = model.new_cache(first.pages(2))
    assert second.length == 2 * second.page_slots == 128
    assert torch.equal(run(model, second, TEXT[128:]), expected)
    tree = DraftTree((3, 5, 8), (-1, -1, 0))
    assert torch.equal(run(model, second, [11], tree), run(model, first, [11], tree))


def test_rewinding_into_a_shared_page_and_writing_there_changes_nobody_else(model: Any) -> None:
    first = model.new_cache()
    run(model, first, TEXT)
    second = model.new_cache(first.pages(2))
    second.truncate(70)
    other = run(model, second, [90] * 80)
    fresh = model.new_cache()
    run(model, fresh, TEXT[:70])
    assert torch.equal(run(model, fresh, [90] * 80), other)
    again = model.new_cache()
    run(model, again, TEXT)
    assert torch.equal(run(model, first, [1, 2]), run(model, again, [1, 2]))


def test_pages_outlive_the_cache_they_come_from(model: Any) -> None:
    first = model.new_cache()
    expected = run(model, first, TEXT)
    pages = first.pages(1)
    first.truncate(0)
    del first
    assert torch.equal(run(model, model.new_cache(pages), TEXT[64:]), expected)


def test_bytes_are_told_before_they_are_taken(model: Any) -> None:
    cache = model.new_cache()
    for count in (1, 63, 64, 1, 200):
        told = cache.bytes_with(count)
        run(model, cache, [1] * count)
        assert cache.nbytes <= told
    assert cache.nbytes == cache.bytes_with(0)


def test_pages_that_are_not_full_or_of_another_shape_are_refused() -> None:
    model = NativeDecoder(CONFIG, RandomSource(CONFIG), weights="fp32")
    cache = model.new_cache()
    run(model, cache, TEXT)
    with pytest.raises(ValueError, match="150 committed tokens do not fill 3 pages"):
        cache.pages(3)
    with pytest.raises(ValueError, match="do not fill"):
        cache.pages(-1)
    wide = tiny_config(head_dim=32)
    other = NativeDecoder(wide, RandomSource(wide), weights="fp32")
    with pytest.raises(ValueError, match="another shape"):
        other.new_cache(cache.pages(1))
    lean: Any = Decoder(CONFIG, RandomSource(CONFIG), weights="fp32", device=torch.device("cpu"))
    with pytest.raises(ValueError, match="of its own kind"):
        lean.new_cache(cache.pages(1))
