"""Tiny drafting heads with random weights: norms and biases too, so that leaving one out shows."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from outrider.heads.eagle import EagleConfig, EagleHead
from outrider.heads.eagle3 import Eagle3Config, Eagle3Head
from outrider.heads.layer import LayerConfig
from outrider.heads.medusa import MedusaConfig, MedusaHeads

Head = TypeVar("Head", bound=nn.Module)

ROPES: list[dict[str, Any] | None] = [
    None,
    {"rope_type": "linear", "factor": 2.0},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
]


def layer_config(**options: Any) -> LayerConfig:
    sizes = {"hidden_size": 12, "intermediate_size": 20, "heads": 4, "kv_heads": 2, "head_dim": 6}
    return LayerConfig(**{**sizes, **options})


def eagle3_config(*, layer: LayerConfig | None = None, **options: Any) -> Eagle3Config:
    layer = layer or layer_config()
    plain = {"vocab_size": 30, "draft_vocab_size": 11, "target_hidden_size": layer.hidden_size}
    return Eagle3Config(layer=layer, **{**plain, **options})


def some_ids(count: int, vocab_size: int, seed: int = 0) -> Tensor:
    """Return rising target ids, at random, but never the first tokens alone, whose map would look lost."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randperm(vocab_size, generator=generator)[:count].sort().values
    if count < vocab_size and int(ids[-1]) < count:
        ids[-1] = vocab_size - 1
    return ids


def shaken(head: Head, seed: int = 0) -> Head:
    """Give every weight a random value, norms around one and all others around zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in head.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            weight.copy_(1 + 0.3 * values if "norm" in name else 0.3 * values)
    return head.eval()


def eagle3_head(config: Eagle3Config | None = None, seed: int = 0, **options: Any) -> Eagle3Head:
    config = config or eagle3_config(**options)
    ids = some_ids(config.draft_vocab_size, config.vocab_size, seed)
    return shaken(Eagle3Head(config, ids), seed)


def eagle_config(*, layer: LayerConfig | None = None, **options: Any) -> EagleConfig:
    return EagleConfig(layer=layer or layer_config(), **{"vocab_size": 30, **options})


def eagle_head(config: EagleConfig | None = None, seed: int = 0, **options: Any) -> EagleHead:
    return shaken(EagleHead(config or eagle_config(**options)), seed)


def medusa_config(**options: Any) -> MedusaConfig:
    return MedusaConfig(**{"hidden_size": 12, "vocab_size": 30, "heads": 3, **options})


def medusa_heads(config: MedusaConfig | None = None, seed: int = 0, **options: Any) -> MedusaHeads:
    """Return Medusa heads; a draft vocabulary stands in no order."""
    config = config or medusa_config(**options)
    ids = None
    if config.draft_vocab_size is not None:
        ids = some_ids(config.draft_vocab_size, config.vocab_size, seed).flip(0)
    return shaken(MedusaHeads(config, ids), seed)
