"""The EAGLE-1 head: what it computes, by its definition."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from outrider.errors import HeadError
from outrider.heads.attend import Growing, causal
from outrider.heads.eagle import EagleConfig
from tiny_heads import eagle_config, eagle_head, layer_config


@pytest.mark.parametrize(
    "config",
    [
        eagle_config(),
        eagle_config(fusion_bias=True, own_embedding=True),
        eagle_config(input_norms=True, layer=layer_config(qkv_bias=True, kv_heads=1)),
    ],
)
@torch.no_grad()
def test_a_head_computes_what_its_definition_says(config: EagleConfig) -> None:
    """One position at a time, rotations as matrices, all shares written out."""
    head = eagle_head(config)
    w = {name: tensor.double() for name, tensor in head.state_dict().items()}
    layer, count = config.layer, 6
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(count, 12, generator=generator)
    embeddings = torch.randn(count, 12, generator=generator)

    def rms(x: torch.Tensor, name: str) -> torch.Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w[name]

    def turn(position: int) -> torch.Tensor:
        half = layer.head_dim // 2
        matrix = torch.zeros(layer.head_dim, layer.head_dim, dtype=torch.float64)
        for i in range(half):
            angle = torch.tensor(position * 10000.0 ** (-2 * i / layer.head_dim), dtype=torch.float64)
            matrix[i, i] = matrix[i + half, i + half] = angle.cos()
            matrix[i, i + half], matrix[i + half, i] = -angle.sin(), angle.sin()
        return matrix

    e, f = embeddings.double(), features.double()
    if config.input_norms:
        e, f = rms(e, "embedding_norm.weight"), rms(f, "feature_norm.weight")
    x = torch.cat([e, f], -1) @ w["fusion.weight"].T + w.get("fusion.bias", torch.zeros(12))
    q, k, v = (
        (x @ w[f"attention.{part}.weight"].T + w.get(f"attention.{part}.bias", torch.zeros(1))).view(
            count, -1, layer.head_dim
        )
        for part in ("query", "key", "value")
    )
    expected = []
    for t in range(count):
        mixed = []
        for h in range(layer.heads):
            group = h * layer.kv_heads // layer.heads
            scores = torch.stack([(turn(t) @ q[t, h]) @ (turn(s) @ k[s, group]) for s in range(t + 1)])
            mixed.append((scores / layer.head_dim**0.5).softmax(0) @ v[: t + 1, group])
        y = x[t] + w["attention.output.weight"] @ torch.cat(mixed)
        z = rms(y, "feed_forward_norm.weight")
        inner = F.silu(w["feed_forward.gate.weight"] @ z) * (w["feed_forward.up.weight"] @ z)
        expected.append(y + w["feed_forward.down.weight"] @ inner)
    output = head(features, embeddings, torch.arange(count), causal)
    torch.testing.assert_close(output.double(), torch.stack(expected), atol=2e-5, rtol=1e-5)


@torch.no_grad()
def test_what_a_head_predicts_is_fed_back_as_the_next_feature() -> None:
    """A chain of drafts, row by row, is the text whose later features are the head's own outputs."""
    head = eagle_head()
    features, embeddings = torch.randn(5, 12), torch.randn(5, 12)
    attend = Growing()
    drafted = head(features[:3], embeddings[:3], torch.arange(3), attend)[-1:]
    fed = [features[:3]]
    for t in (3, 4):
        fed.append(drafted)
        drafted = head(drafted, embeddings[t : t + 1], torch.tensor([t]), attend)
    at_once = head(torch.cat(fed), embeddings, torch.arange(5), causal)
    torch.testing.assert_close(drafted[0], at_once[-1])


def test_a_head_brings_an_embedding_only_where_it_says_so() -> None:
    head = eagle_head(own_embedding=True)
    assert torch.equal(head.embed(torch.tensor([7])), head.state_dict()["embedding.weight"][7:8])
    assert "embedding.weight" not in eagle_head().state_dict()


def test_an_empty_vocabulary_is_refused() -> None:
    with pytest.raises(HeadError, match="vocab_size must be a whole number above zero"):
        eagle_config(vocab_size=0)
