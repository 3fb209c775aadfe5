"""An EAGLE-3 head drafts the same in the core as the PyTorch module."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from outrider.errors import HeadError
from outrider.heads.attend import Growing
from outrider.heads.eagle3 import Eagle3Head
from outrider.loop.verify.pack import Part, pack
from outrider.native.decoder import NativeDecoder
from outrider.native.eagle3 import native_head
from outrider.native.head import WEIGHTS
from outrider.types import DraftTree
from tiny import RandomSource, tiny_config
from tiny_heads import ROPES, eagle3_config, eagle3_head, layer_config

CONFIG = tiny_config(hidden=12, vocab=30, layers=8, context_limit=100)
TARGET = NativeDecoder(CONFIG, RandomSource(CONFIG), weights="fp32")
TARGET_ROWS = RandomSource(CONFIG).get("model.embed_tokens.weight")
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "whole vocabulary": {"draft_vocab_size": 30},
    "a norm each": {"feature_norms": True, "feed_normed": True},
    "one norm": {"input_norm": True, "norm_before_residual": True},
    "own embedding": {"own_embedding": True},
    "wider than the target": {"layer": layer_config(hidden_size=20), "own_embedding": True},
    "biases and norms": {"layer": layer_config(qkv_bias=True, output_bias=True, qk_norm=True)},
    "scaled positions": {"layer": layer_config(rope_scaling=ROPES[2])},
}


def head_of(variant: str) -> Eagle3Head:
    options = VARIANTS[variant]
    return eagle3_head(eagle3_config(**{"target_hidden_size": 12, **options}))


@pytest.mark.parametrize("variant", VARIANTS)
@torch.inference_mode()
def test_a_packed_head_drafts_what_the_module_drafts(variant: str) -> None:
    """Features of a text that the target read, then a chain that is fed its own states."""
    head, text = head_of(variant), [token % 30 for token in range(3, 80, 4)]
    ours = native_head(head, TARGET, weights="fp32")
    layers = head.config.layers_of(CONFIG.layers)
    read = TARGET.run(pack([Part(0, text, DraftTree(), True)]), [TARGET.new_cache()], captured=layers)
    features = torch.cat(tuple(read.hidden[:, :-1]), dim=-1)
    tokens, cache, attend = text[1:], ours.new_cache(), Growing()
    output = ours.run(pack([Part(0, tokens, DraftTree(), True)]), [cache], features=features)
    cache.keep(range(len(tokens)))
    hidden = head.fuse(features)
    for _ in range(5):
        positions = torch.arange(len(attend), len(attend) + len(tokens))
        embeddings = TARGET_ROWS[tokens] if head.embedding is None else head.embed(torch.tensor(tokens))
        theirs = head(hidden, embeddings, positions, attend)[-1:]
        logits = head.logits(theirs)
        assert (output.logits - logits).abs().max() <= 1e-5 * logits.abs().max()
        tokens, hidden = [int(head.target_ids[logits.argmax()])], head.fed_back(theirs)
        assert (output.states - hidden).abs().max() <= 1e-5 * hidden.abs().max()
        batch = pack([Part(cache.length, tokens, DraftTree(), True)])
        output = ours.run(batch, [cache], inputs=output.states)
        cache.keep([0])


@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_head_is_packed_in_any_format_whatever_its_own_type(weights: str) -> None:
    packed = native_head(head_of("plain").to(torch.bfloat16), TARGET, weights=weights)
    fine = native_head(head_of("plain"), TARGET, weights="fp32")
    batch, inputs = pack([Part(0, [1, 2], DraftTree(), True)]), torch.ones(2, 12)
    found, expected = (each.run(batch, [each.new_cache()], inputs=inputs).logits for each in (packed, fine))
    assert (found - expected).abs().max() <= 0.05 * expected.abs().max()


def test_a_head_of_another_target_is_refused_with_both_numbers() -> None:
    with pytest.raises(HeadError, match=r"expects 31 tokens in the vocabulary.* has 30"):
        native_head(eagle3_head(vocab_size=31), TARGET)
    with pytest.raises(HeadError, match=r"expects 20 numbers in a hidden state.* has 12"):
        native_head(eagle3_head(target_hidden_size=20, own_embedding=True), TARGET)
