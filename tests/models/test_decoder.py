"""The pass: rows that don't depend on their neighbours, trees, caches, and the whole loop on it."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import RandomTrees, plain_tokens, run
from outrider.errors import LoadError, UnknownNameError
from outrider.loop.verify.pack import Part, pack
from outrider.models.base import LoadedModel
from outrider.models.decoder import Decoder
from outrider.models.passes import Choice, build_decoder
from outrider.models.toy import ToyTokenizer
from outrider.native import why_missing
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree
from pass_conformance import VARIANTS, check_rows, logits_alone
from tiny import RandomSource, tiny_config

pytestmark = pytest.mark.usefixtures("two_threads")

IMPLEMENTATIONS = (
    "pytorch",
    pytest.param("native", marks=pytest.mark.skipif(why_missing() is not None, reason=str(why_missing()))),
)
"""Whatever runs the pass, the loop's text is the same; the native pass's own tests are in tests/native."""


@lru_cache
def decoder(variant: str, weights: str, implementation: str = "pytorch") -> Any:
    config = tiny_config(**VARIANTS[variant])
    choice = Choice(weights, torch.device("cpu"), implementation)
    return build_decoder(config, RandomSource(config), choice)[0]


@pytest.mark.parametrize("weights", ["fp32", "fp16", "int8"])
@pytest.mark.parametrize("variant", VARIANTS)
@given(seed=st.integers(0, 10**9))
@settings(max_examples=8, deadline=None)
def test_a_row_is_the_same_bit_for_bit_alone_in_a_chain_in_a_tree_and_in_a_batch(
    variant: str, weights: str, seed: int
) -> None:
    check_rows(decoder(variant, weights), random.Random(seed), [1, 5, 40, 130, 505, 511, 512, 600])


@pytest.mark.parametrize("weights", ["fp32", "fp16", "int8"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_text_is_identical_with_random_trees_and_without(
    implementation: str, variant: str, temperature: float, weights: str
) -> None:
    model = LoadedModel("tiny", decoder(variant, weights, implementation), ToyTokenizer(97))
    params = SamplingParams(temperature=temperature, seed=3, max_tokens=40, top_p=0.95)
    prompts = [[1, 2, 3], list(range(40)), [5] * 9]
    results = run(model, RandomTrees(4, vocab=97), prompts, params, budget=9)
    for prompt, result in zip(prompts, results, strict=True):
        assert list(result.token_ids) == plain_tokens(model.target, prompt, params, 40)


class Oracle(RandomTrees):
    """Hides the text that plain decoding will give as a random branch of each tree."""

    def __init__(self, seed: int, texts: dict[int, list[int]]) -> None:
        super().__init__(seed, vocab=97)
        self._texts = texts

    def propose(self, asks):  # type: ignore[no-untyped-def]
        trees = []
        for ask in asks:
            whole = self._texts[ask.tokens[0]]
            right = whole[len(ask.tokens) :][: self._random.randint(0, ask.budget)]
            tokens, parents, parent = [], [], -1
            for token in right:
                if self._random.random() < 0.5 and len(tokens) + 2 < ask.budget:
                    tokens.append((token + 1) % 97)  # a wrong sibling that stands before the right node
                    parents.append(parent)
                if len(tokens) < ask.budget:
                    tokens.append(token)
                    parents.append(parent)
                    parent = len(tokens) - 1
            trees.append(DraftTree(tuple(tokens), tuple(parents)))
        return trees


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_kept_branch_that_is_not_the_first_leaves_the_right_keys_behind(
    implementation: str, variant: str
) -> None:
    """A wrong position or a key of the first branch shows only from the next round on."""
    model = LoadedModel("tiny", decoder(variant, "fp32", implementation), ToyTokenizer(97))
    params = SamplingParams(temperature=0.7, seed=3, max_tokens=60)
    prompts = [[1, 2, 3], [2, *range(40)], [3] * 500]
    texts = {p[0]: p + plain_tokens(model.target, p, params, 60) for p in prompts}
    results = run(model, Oracle(1, texts), prompts, params, budget=9)
    for prompt, result in zip(prompts, results, strict=True):
        assert prompt + list(result.token_ids) == texts[prompt[0]]
        assert result.speculation.mean_accepted_length > 2


def test_after_every_step_the_cache_holds_what_a_fresh_read_of_the_text_gives() -> None:
    model, chance = decoder("grouped", "fp32"), random.Random(5)
    prompt = [chance.randrange(97) for _ in range(30)]
    cache = model.new_cache()
    model.forward(pack([Part(0, prompt, DraftTree(), False)]), [cache])
    cache.keep(range(30))
    tree = DraftTree((1, 2, 3, 4, 5), (-1, -1, 1, 1, 3))
    model.forward(pack([Part(30, [9], tree, True)]), [cache])
    cache.keep([0, 2, 4, 5])  # the pending token and the path 1, 3, 4
    fresh = model.new_cache()
    text = [*prompt, 9, 2, 4, 5]
    model.forward(pack([Part(0, text, DraftTree(), False)]), [fresh])
    fresh.keep(range(len(text)))
    assert cache.length == fresh.length == 34
    for layer in range(model.config.layers):
        for ours, theirs in zip(cache.view(layer, 34), fresh.view(layer, 34), strict=True):
            assert torch.equal(ours, theirs)


def test_values_beyond_fp16_are_noticed_at_load() -> None:
    config = tiny_config()
    source = RandomSource(config)
    source.scale("model.layers.1.mlp.down_proj.weight", 1e6)
    with pytest.raises(LoadError, match=r"layers.1.mlp.down_proj.*fp32"):
        Decoder(config, source, weights="fp16", device=torch.device("cpu"))
    auto = Decoder(config, source, weights="auto", device=torch.device("cpu"))
    assert any("layers.1.mlp.down_proj" in notice for notice in auto.notices)
    exact = Decoder(config, source, weights="fp32", device=torch.device("cpu"))
    ours, theirs = logits_alone(auto, [1, 2, 3]), logits_alone(exact, [1, 2, 3])
    assert (ours - theirs).norm() / theirs.norm() < 1e-2
    with pytest.raises(UnknownNameError, match="did you mean 'fp16'"):
        Decoder(config, source, weights="fp61", device=torch.device("cpu"))


@pytest.mark.parametrize(("weights", "bound"), [("fp16", 2e-3), ("int8", 6e-2)])
def test_lighter_weights_stay_close_to_float32(weights: str, bound: float) -> None:
    exact, light = decoder("grouped", "fp32"), decoder("grouped", weights)
    ours, theirs = logits_alone(light, [1, 2, 3, 4]), logits_alone(exact, [1, 2, 3, 4])
    if light.kernel == "fbgemm int8" and not torch.cpu._is_vnni_supported():
        bound *= 2  # activations have 7 bits there
    assert 0 < (ours - theirs).norm() / theirs.norm() < bound


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("weights", ["fp32", "fp16", "int8"])
def test_the_same_code_runs_on_a_gpu(weights: str) -> None:
    config = tiny_config()
    there = Decoder(config, RandomSource(config), weights=weights, device=torch.device("cuda"))
    ours, theirs = logits_alone(there, [1, 2, 3]).cpu(), logits_alone(decoder("grouped", "fp32"), [1, 2, 3])
    assert (ours - theirs).norm() / theirs.norm() < 6e-2
