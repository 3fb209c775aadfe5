"""Heads of random weights for models of a few tokens, to draft with where every outcome is looked at."""

from __future__ import annotations

import torch

from outrider.heads.eagle3 import Eagle3Config, Eagle3Head
from outrider.heads.layer import LayerConfig
from outrider.heads.medusa import MedusaConfig, MedusaHeads
from outrider.heads.passes import ReadyHead, TorchHeadPass
from outrider.models.toy import ToyTarget

FEATURES = (0, 1, 2)


def toy_head(target: ToyTarget) -> ReadyHead:
    """Return an EAGLE-3 head of random weights, which names all tokens but the last one."""
    size = target.vocab_size
    layer = LayerConfig(hidden_size=size, intermediate_size=8, heads=2, kv_heads=1, head_dim=4)
    config = Eagle3Config(layer, size, size - 1, size, feature_layers=FEATURES)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        head = Eagle3Head(config, torch.arange(size - 1)).requires_grad_(False)
        head.head.weight.mul_(4.0)  # surer than a new one
    passes = TorchHeadPass(head, embed=target.embed)
    return ReadyHead(passes, size, size, head.target_ids, target.context_limit, FEATURES, 0.0)


def toy_medusa(target: ToyTarget) -> MedusaHeads:
    """Return four Medusa heads of random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        return MedusaHeads(MedusaConfig(target.vocab_size, target.vocab_size, 4)).requires_grad_(False)
