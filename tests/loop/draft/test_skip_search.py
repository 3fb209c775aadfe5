"""The search for layers to leave out: right counts, bounded, found again without a pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from conftest import VOCAB
from outrider.loop.draft import layerskip
from outrider.loop.draft.agreement import APART, DEPTH, WRITTEN, Agreement
from outrider.loop.draft.layerskip import LayerSkipDrafter
from outrider.loop.draft.skip_search import KeptSearch, Skips, expected_gain, search
from outrider.models.base import LoadedModel
from outrider.models.decoder import Decoder
from outrider.models.toy import ToyTarget, ToyTokenizer
from tiny import RandomSource, tiny_config

PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 0]]


def layers_of(count: int) -> Any:
    return SimpleNamespace(layer_bytes=(10,) * count, weight_bytes=10 * count + 20)


def test_the_rate_is_the_share_of_right_guesses_after_right_ones() -> None:
    """Counted anew from the laws of the toy, and of the toy without its middle layer."""
    target = ToyTarget(VOCAB, seed=3, zeros=0.0)
    right = total = 0
    for prompt in PROMPTS:
        text = list(prompt)
        for _ in range(WRITTEN):
            law = target.law(text)
            text.append(law.index(max(law)))
        for start in range(len(prompt), len(text) - 1, APART):
            for end in range(start + 1, min(start + DEPTH, len(text) - 1) + 1):
                law = target._through((0, 2)).law(text[:end])
                right += law.index(max(law)) == text[end]
                total += 1
    agreement = Agreement(target, PROMPTS)
    assert agreement.rate([1]) == pytest.approx(right / total)
    assert 0 < right < total
    assert agreement.rate([]) == 1.0
    assert agreement.rate([1]) == pytest.approx(right / total)


@pytest.mark.parametrize(("limit", "rate"), [(2, 0.0), (9, 1.0), (24, 1.0)])
def test_a_short_context_is_no_hindrance(limit: int, rate: float) -> None:
    assert Agreement(ToyTarget(VOCAB, context_limit=limit), PROMPTS).rate([]) == rate


def test_layers_that_do_nothing_are_found(decoder_class: type) -> None:
    config = tiny_config(layers=6)
    source = RandomSource(config)
    for layer in (1, 4):
        for part in ("self_attn.o_proj", "mlp.down_proj"):
            source.scale(f"model.layers.{layer}.{part}.weight", 0.0)
    more = {"device": torch.device("cpu")} if decoder_class is Decoder else {}
    target = decoder_class(config, source, weights="fp32", **more)
    found = search(Agreement(target, PROMPTS).rate, target, 40)
    assert [len(each.layers) for each in found] == sorted({len(each.layers) for each in found})
    best = max(found, key=lambda each: each.gain)
    assert (best.layers, best.rate) == ((1, 4), 1.0)
    assert best.cost == pytest.approx(1 - 2 * target.layer_bytes[0] / target.weight_bytes)


@pytest.mark.parametrize("passes", [1, 5, 12, 60])
def test_a_search_measures_no_set_twice_and_no_more_than_it_may(passes: int) -> None:
    seen: list[tuple[int, ...]] = []

    def rate(layers: Sequence[int]) -> float:
        seen.append(tuple(layers))
        return 0.95 ** sum(1 + layer % 3 for layer in layers)

    found = search(rate, layers_of(12), passes)
    assert found
    assert len(seen) == len(set(seen)) <= passes
    assert all(0 < len(layers) < 12 for layers in seen)
    again = search(rate, layers_of(12), passes)
    assert again == found


def test_a_search_finds_layers_that_are_only_missed_together() -> None:
    """Each of 1, 2 and 3 may go, but no two of them: growing by the best single ones ends there."""

    def rate(layers: Sequence[int]) -> float:
        harmful = len({1, 2, 3} & set(layers)) > 1
        return 0.1 if harmful else 0.99 ** sum(layer not in (1, 2, 3) for layer in layers)

    best = max(search(rate, layers_of(10), 120), key=lambda each: each.gain)
    assert len({1, 2, 3} & set(best.layers)) == 1
    assert len(best.layers) >= 6


def test_the_expected_gain_is_that_of_the_best_length() -> None:
    assert expected_gain(1.0, 0.5) == pytest.approx(9 / 5)
    assert expected_gain(0.5, 0.9) == pytest.approx(1.5 / 1.9)
    assert expected_gain(0.7, 0.02) == pytest.approx(
        max(sum(0.7**i for i in range(k + 1)) / (1 + 0.02 * k) for k in range(1, 9))
    )


FOUND = [Skips((1,), 0.75, 0.5), Skips((0, 2), 0.5, 0.25)]


def test_what_was_found_is_found_again_and_damage_is_no_harm(tmp_path: Path) -> None:
    kept = KeptSearch({"model": "a"}, tmp_path)
    assert kept.read(3) is None
    kept.write(FOUND)
    assert KeptSearch({"model": "a"}, tmp_path).read(3) == FOUND
    assert KeptSearch({"model": "b"}, tmp_path).read(3) is None
    assert KeptSearch({"model": "a"}, tmp_path).read(2) is None  # the model has no layer 2 now
    assert KeptSearch({"model": "a"}, None).read(3) is None
    [file] = tmp_path.iterdir()
    for damage in ("", "{}", '{"found": []}', json.dumps({"found": [{"layers": [1], "rate": 7, "cost": 1}]})):
        file.write_text(damage, encoding="utf-8")
        assert kept.read(3) is None


def test_a_second_start_makes_no_pass_of_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Letters(ToyTokenizer):
        def encode(self, text: str, *, special: bool = True) -> list[int]:
            return [ord(letter) % VOCAB for letter in text]

    def model() -> LoadedModel:
        return LoadedModel("toy", ToyTarget(VOCAB, seed=1), Letters(VOCAB), {"parameters": 1})

    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    first = model()
    made = LayerSkipDrafter.build(first.target, first, {})
    assert len(made.sets) == 2
    [notice] = first.details["notices"]
    assert "layerskip: without layers" in notice
    LayerSkipDrafter.build(first.target, first, {"width": 2})
    assert len(first.details["notices"]) == 1
    monkeypatch.setattr(layerskip, "Agreement", None)
    second = model()
    assert LayerSkipDrafter.build(second.target, second, {}).sets == made.sets
    assert second.details["notices"] == [notice]
    with pytest.raises(TypeError):
        LayerSkipDrafter.build(second.target, second, {"search_passes": 5})
