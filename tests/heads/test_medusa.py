"""Medusa heads: what they compute, and what they begin as."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from outrider.errors import HeadError
from outrider.heads.medusa import MedusaConfig, MedusaHeads
from tiny_heads import medusa_config, medusa_heads, some_ids


@pytest.mark.parametrize(
    "config",
    [
        medusa_config(),
        medusa_config(blocks=2, block_bias=False),
        medusa_config(shared_output=True, heads=2),
        medusa_config(draft_vocab_size=9),
    ],
)
@torch.no_grad()
def test_heads_compute_what_their_definition_says(config: MedusaConfig) -> None:
    heads = medusa_heads(config)
    w = {name: tensor.double() for name, tensor in heads.state_dict().items()}
    hidden = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1))
    logits = heads(hidden)
    assert logits.shape == (config.heads, 2, 5, config.draft_vocab_size or 30)
    for i in range(config.heads):
        x = hidden.double()
        for j in range(config.blocks):
            inner = torch.einsum("oi,bri->bro", w[f"blocks.{i}.{j}.weight"], x)
            inner = inner + w.get(f"blocks.{i}.{j}.bias", torch.zeros(1))
            x = x + inner / (1 + torch.exp(-inner))
        matrix = w["outputs.0.weight" if config.shared_output else f"outputs.{i}.weight"]
        torch.testing.assert_close(logits[i].double(), x @ matrix.T, atol=1e-5, rtol=1e-5)
        assert torch.equal(heads.logits(hidden, i), logits[i])


@torch.no_grad()
def test_heads_begin_as_the_targets_own_output() -> None:
    matrix, hidden = torch.randn(30, 12), torch.randn(4, 12)
    heads = MedusaHeads(medusa_config(blocks=2))
    heads.start_from(matrix)
    for logits in heads(hidden):
        torch.testing.assert_close(logits, hidden @ matrix.T)
    ids = some_ids(9, 30).flip(0)
    few = MedusaHeads(medusa_config(draft_vocab_size=9), ids)
    few.start_from(matrix)
    torch.testing.assert_close(few(hidden)[0], (hidden @ matrix.T)[:, ids])
    with pytest.raises(HeadError, match=r"shape \[12, 30\], these heads are made for \[30, 12\]"):
        heads.start_from(matrix.T)


@torch.no_grad()
def test_expanded_logits_stand_at_their_targets_ids_in_whatever_order() -> None:
    heads = medusa_heads(draft_vocab_size=9)
    logits = heads(torch.randn(2, 12))
    full = heads.expand(logits)
    assert full.shape == (3, 2, 30)
    assert heads.target_ids is not None
    for draft, target in enumerate(heads.target_ids.tolist()):
        assert torch.equal(full[..., target], logits[..., draft])
    assert int((full[0, 0] == float("-inf")).sum()) == 21
    whole = medusa_heads()
    logits = whole(torch.randn(2, 12))
    assert torch.equal(whole.expand(logits), logits)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"heads": 0}, "heads must be"),
        ({"blocks": 0}, "blocks must be"),
        ({"draft_vocab_size": 30}, "no part of the target's 30"),
        ({"draft_vocab_size": 0}, "draft_vocab_size must be"),
    ],
)
def test_a_configuration_that_contradicts_itself_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(HeadError, match=says):
        medusa_config(**options)


def test_target_ids_and_a_draft_vocabulary_go_together() -> None:
    with pytest.raises(HeadError, match="if, and only if"):
        MedusaHeads(medusa_config(draft_vocab_size=9))
    with pytest.raises(HeadError, match="if, and only if"):
        MedusaHeads(medusa_config(), torch.arange(30))
    with pytest.raises(HeadError, match="8 target_ids for 9 draft tokens"):
        MedusaHeads(medusa_config(draft_vocab_size=9), torch.arange(8))
