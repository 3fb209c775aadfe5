"""The EAGLE-3 head: what it computes, alone, in chains, in trees and in batches."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from outrider.cache.kv import KvCache
from outrider.errors import HeadError, LoadError
from outrider.heads.attend import Cached, Growing, causal
from outrider.heads.eagle3 import Eagle3Config, Eagle3Head, default_feature_layers
from outrider.models.attention import Attention, spans, stable_queries
from outrider.models.base import Batch
from tiny_heads import ROPES, eagle3_config, eagle3_head, layer_config, some_ids

Array = np.ndarray[Any, Any]


def rms(x: Array, weight: Array, eps: float = 1e-6) -> Array:
    scaled: Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight
    return scaled


def by_hand(head: Eagle3Head, features: Array, embeddings: Array) -> tuple[Array, Array]:
    """Return outputs and logits of a chain, position by position and head by head, from the definitions."""
    w = {name: tensor.detach().double().numpy() for name, tensor in head.named_parameters()}
    config, layer = head.config, head.config.layer
    if config.feature_norms:
        parts = np.split(features, config.feature_count, axis=-1)
        features = np.concatenate(
            [rms(part, w[f"feature_norms.{i}.weight"]) for i, part in enumerate(parts)], axis=-1
        )
    if config.input_norm:
        features = rms(features, w["input_norm.weight"])
    hidden = features @ w["fusion.weight"].T
    normed = rms(hidden, w["hidden_norm.weight"])
    residual = normed if config.norm_before_residual else hidden
    x = np.concatenate([rms(embeddings, w["embedding_norm.weight"]), normed], axis=-1)
    outputs = []
    for t in range(len(x)):
        heads = []
        for h in range(layer.heads):
            group = h // (layer.heads // layer.kv_heads)
            q = turned(head, project(w, "query", x[t], h, layer.head_dim), t)
            keys = [turned(head, project(w, "key", x[s], group, layer.head_dim), s) for s in range(t + 1)]
            values = [project(w, "value", x[s], group, layer.head_dim) for s in range(t + 1)]
            scores = np.array([q @ k for k in keys]) / np.sqrt(layer.head_dim)
            shares = np.exp(scores - scores.max())
            heads.append((shares / shares.sum()) @ np.array(values))
        attended = np.concatenate(heads) @ w["attention.output.weight"].T
        middle = residual[t] + attended + w.get("attention.output.bias", 0)
        inner = rms(middle, w["feed_forward_norm.weight"])
        gate = inner @ w["feed_forward.gate.weight"].T
        up = inner @ w["feed_forward.up.weight"].T
        outputs.append(middle + (gate / (1 + np.exp(-gate)) * up) @ w["feed_forward.down.weight"].T)
    output = np.array(outputs)
    return output, rms(output, w["norm.weight"]) @ w["head.weight"].T


def project(w: dict[str, Array], part: str, x: Array, head: int, dim: int) -> Array:
    rows = slice(head * dim, (head + 1) * dim)
    projected: Array = w[f"attention.{part}.weight"][rows] @ x
    if f"attention.{part}.bias" in w:
        projected = projected + w[f"attention.{part}.bias"][rows]
    if f"attention.{part}_norm.weight" in w:
        projected = rms(projected, w[f"attention.{part}_norm.weight"])
    return projected


def turned(head: Eagle3Head, x: Array, position: int) -> Array:
    """Rotate pairs (i, i + D/2) by position times frequency, as complex numbers."""
    rope = head.config.layer.rope
    half = len(x) // 2
    pairs = x[:half] + 1j * x[half:]
    pairs = pairs * np.exp(1j * position * np.array(rope.inv_freq)) * rope.scale
    return np.concatenate([pairs.real, pairs.imag])


def chain(head: Eagle3Head, count: int, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Return random features `[R, n · Ht]`, embeddings `[R, H]` and positions of a text."""
    generator = torch.Generator().manual_seed(seed)
    config = head.config
    features = torch.randn(count, config.feature_count * config.target_hidden_size, generator=generator)
    return features, torch.randn(count, config.hidden_size, generator=generator), torch.arange(count)


@pytest.mark.parametrize(
    "config",
    [
        eagle3_config(),
        eagle3_config(norm_before_residual=True, feature_norms=True),
        eagle3_config(input_norm=True, feature_layers=(0, 4), target_hidden_size=8, own_embedding=True),
        eagle3_config(layer=layer_config(qkv_bias=True, output_bias=True, rope_scaling=ROPES[1])),
        eagle3_config(layer=layer_config(qk_norm=True, kv_heads=4, rope_scaling=ROPES[2])),
    ],
)
@torch.no_grad()
def test_a_head_computes_what_its_definition_says(config: Eagle3Config) -> None:
    head = eagle3_head(config)
    features, embeddings, positions = chain(head, 7)
    output = head(head.fuse(features), embeddings, positions, causal)
    expected, logits = by_hand(head, features.double().numpy(), embeddings.double().numpy())
    np.testing.assert_allclose(output.numpy(), expected, atol=2e-5)
    np.testing.assert_allclose(head.logits(output).numpy(), logits, atol=2e-5)


@torch.no_grad()
def test_features_are_fused_in_the_order_of_their_layers_side_by_side_or_in_a_list() -> None:
    head = eagle3_head(feature_norms=True)
    features, _, _ = chain(head, 4)
    parts = features.chunk(3, dim=-1)
    assert torch.equal(head.fuse(parts), head.fuse(features))
    assert not torch.allclose(head.fuse(parts[::-1]), head.fuse(features))


@torch.no_grad()
def test_a_chain_grown_row_by_row_gives_what_it_gives_at_once() -> None:
    head = eagle3_head()
    features, embeddings, positions = chain(head, 6)
    hidden = head.fuse(features)
    at_once = head(hidden, embeddings, positions, causal)
    attend = Growing()
    first = head(hidden[:2], embeddings[:2], positions[:2], attend)
    rest = [head(hidden[t : t + 1], embeddings[t : t + 1], positions[t : t + 1], attend) for t in range(2, 6)]
    torch.testing.assert_close(torch.cat([first, *rest]), at_once)
    attend.keep(3)
    again = head(hidden[3:], embeddings[3:], positions[3:], attend)
    torch.testing.assert_close(again, at_once[3:])


@torch.no_grad()
def test_every_path_of_a_tree_gives_what_it_gives_as_a_chain() -> None:
    """Behind a mask, and over a cache of the lean decoder."""
    head = eagle3_head()
    layer = head.config.layer
    features, embeddings, positions = chain(head, 9)
    hidden = head.fuse(features)
    text, parents = 3, (-1, 0, 0, 1, 2, -1)
    depth = [0, 1, 1, 2, 2, 0]
    path = [[0], [0, 1], [0, 2], [0, 1, 3], [0, 2, 4], [5]]
    tree_positions = torch.tensor([text + d for d in depth])
    mask = torch.zeros(6, 9, dtype=torch.bool)
    mask[:, :text] = True
    for node, above in enumerate(path):
        mask[node, [text + row for row in above]] = True
    attend = Growing()
    head(hidden[:text], embeddings[:text], positions[:text], attend)
    attend.mask = mask
    masked = head(hidden[text:], embeddings[text:], tree_positions, attend)
    cache = KvCache(1, layer.kv_heads, layer.head_dim, torch.device("cpu"))
    groups = layer.heads // layer.kv_heads
    fewest = stable_queries(layer.kv_heads, groups, layer.head_dim, torch.device("cpu"))

    def cached(rows: slice, parents: tuple[int, ...], positions: Tensor) -> Tensor:
        count = len(parents)
        batch = Batch((0,) * count, tuple(positions.tolist()), (0,) * count, parents, ())
        attention = Attention(spans(batch, [cache], torch.device("cpu")), groups, fewest)
        output: Tensor = head(hidden[rows], embeddings[rows], positions, Cached(attention))
        return output

    cached(slice(0, text), (-1, 0, 1), positions[:text])
    cache.keep(range(text))
    in_cache = cached(slice(text, 9), parents, tree_positions)
    for node, above in enumerate(path):
        rows = [*range(text), *(text + row for row in above)]
        alone = head(hidden[rows], embeddings[rows], torch.arange(len(rows)), causal)[-1]
        torch.testing.assert_close(masked[node], alone)
        torch.testing.assert_close(in_cache[node], alone)


@torch.no_grad()
def test_a_batch_of_texts_gives_what_each_gives_alone() -> None:
    head = eagle3_head()
    texts = [chain(head, 5, seed) for seed in (1, 2)]
    features, embeddings, positions = (torch.stack(parts) for parts in zip(*texts, strict=True))
    together = head(head.fuse(features), embeddings, positions, causal)
    for row, (one, embedded, where) in enumerate(texts):
        torch.testing.assert_close(together[row], head(head.fuse(one), embedded, where, causal))


@torch.no_grad()
def test_a_head_is_fed_its_output_before_the_last_norm_or_after_it() -> None:
    output = torch.randn(4, 12)
    plain, normed = eagle3_head(), eagle3_head(feed_normed=True)
    assert torch.equal(plain.fed_back(output), output)
    assert torch.equal(normed.fed_back(output), normed.norm(output))
    assert torch.equal(plain.logits(output), normed.logits(output)), "logits are those of the normed output"


def test_a_head_can_be_of_another_type_and_its_ids_stay_whole() -> None:
    head = Eagle3Head(eagle3_config(), some_ids(11, 30), dtype=torch.bfloat16)
    features, embeddings, positions = chain(head, 5)
    output = head(head.fuse(features.bfloat16()), embeddings.bfloat16(), positions, causal)
    assert output.dtype == head.logits(output).dtype == torch.bfloat16
    assert head.target_ids.dtype == torch.int64
    wide = head.float()
    expected = wide(wide.fuse(features.bfloat16().float()), embeddings.bfloat16().float(), positions, causal)
    assert torch.allclose(output.float(), expected, atol=0.1, rtol=0.1)


@torch.no_grad()
def test_expanded_logits_stand_at_their_targets_ids_and_nothing_else_can_be_drawn() -> None:
    head = eagle3_head()
    logits = head.logits(torch.randn(2, 5, 12))
    full = head.expand(logits)
    assert full.shape == (2, 5, 30)
    assert torch.equal(full[..., head.target_ids], logits)
    left = torch.ones(30, dtype=torch.bool)
    left[head.target_ids] = False
    assert bool((full[..., left] == float("-inf")).all())
    whole = eagle3_head(draft_vocab_size=30)
    logits = whole.logits(torch.randn(3, 12))
    assert torch.equal(whole.expand(logits), logits)


def test_a_heads_own_embedding_is_its_own() -> None:
    head = eagle3_head(own_embedding=True)
    assert torch.equal(head.embed(torch.tensor([4, 4]))[1], head.state_dict()["embedding.weight"][4])
    assert "embedding.weight" not in eagle3_head().state_dict()


def test_features_are_outputs_of_an_early_a_middle_and_a_late_layer_where_nothing_is_said() -> None:
    assert default_feature_layers(32) == (1, 15, 28)
    assert eagle3_config().layers_of(94) == (1, 46, 90)
    assert eagle3_config(feature_layers=(0, 3)).layers_of(4) == (0, 3)
    assert default_feature_layers(7) == (1, 2, 3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"vocab_size": 0}, "vocab_size must be a whole number above zero, not 0"),
        ({"draft_vocab_size": 31}, "draft vocabulary of 31 tokens exceeds the target's 30"),
        ({"target_hidden_size": True}, "target_hidden_size must be a whole number"),
        ({"target_hidden_size": 8}, "width 12 cannot use the embedding of a target of width 8"),
        ({"feature_norms": True, "input_norm": True}, "not both ways"),
        ({"feature_layers": ()}, "rising layer indices from 0"),
        ({"feature_layers": (3, 2)}, "rising layer indices from 0"),
        ({"feature_layers": (2, 2)}, "rising layer indices from 0"),
        ({"feature_layers": (-1, 2)}, "rising layer indices from 0"),
    ],
)
def test_a_configuration_that_contradicts_itself_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(HeadError, match=says):
        eagle3_config(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"heads": 0}, "heads must be a whole number above zero"),
        ({"intermediate_size": 2.5}, "intermediate_size must be a whole number above zero, not 2.5"),
        ({"kv_heads": 3}, "4 heads cannot share 3 key/value heads"),
        ({"norm_eps": 0.0}, "norm_eps"),
        ({"norm_eps": float("nan")}, "norm_eps"),
        ({"head_dim": 5}, "even head size"),
        ({"rope_theta": -1.0}, "rope_theta"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "go stale"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor"),
    ],
)
def test_a_layer_that_contradicts_itself_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(LoadError, match=says):
        layer_config(**options)


def test_a_target_of_too_few_layers_is_refused() -> None:
    with pytest.raises(HeadError, match="output of layer 30, but the target's last layer is 29"):
        eagle3_config(feature_layers=(2, 30)).layers_of(30)
    with pytest.raises(HeadError, match="target of 6 layers has no usual feature layers"):
        eagle3_config().layers_of(6)


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        (None, "names 11 of 30 tokens needs target_ids"),
        (torch.arange(10), "10 target_ids for a draft vocabulary of 11"),
        (torch.arange(11) + 20, "names tokens 20 to 30, but the target has 0 to 29"),
        (torch.arange(11) - 1, "names tokens -1 to 9"),
        (torch.tensor([1, *range(10)]), "twice"),
        (torch.arange(10, -1, -1), "must rise"),
        (torch.arange(11.0), "whole numbers"),
        (torch.arange(22).view(2, 11), "whole numbers"),
        (torch.arange(0), "no token"),
    ],
)
def test_target_ids_that_make_no_sense_are_refused(ids: Tensor | None, says: str) -> None:
    with pytest.raises(HeadError, match=says):
        Eagle3Head(eagle3_config(), ids)


def test_a_configuration_is_compared_by_its_values() -> None:
    assert eagle3_config() == eagle3_config()
    assert dataclasses.replace(eagle3_config(), feed_normed=True) != eagle3_config()
