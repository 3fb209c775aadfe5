"""Unrolled training of an EAGLE-3 head sees at every step what drafting would see."""

from __future__ import annotations

import pytest
import torch

from outrider.heads.attend import Growing
from outrider.heads.eagle3 import Eagle3Config
from outrider.heads.eagle3_unrolled import Unrolled, unroll
from tiny_heads import eagle3_config, eagle3_head, layer_config

TEXTS, LENGTH, STEPS = 2, 8, 4


@pytest.mark.parametrize(
    "config",
    [
        eagle3_config(),
        eagle3_config(feed_normed=True, norm_before_residual=True),
        eagle3_config(layer=layer_config(qk_norm=True, kv_heads=1)),
    ],
)
@torch.no_grad()
def test_each_step_gives_what_a_draft_of_that_depth_gives(config: Eagle3Config) -> None:
    head = eagle3_head(config)
    features = torch.randn(TEXTS, LENGTH, 3 * 12, generator=torch.Generator().manual_seed(1))
    embeddings = torch.randn(TEXTS, LENGTH, 12, generator=torch.Generator().manual_seed(2))
    outputs = list(unroll(head, features, embeddings, STEPS))
    assert len(outputs) == STEPS
    for text in range(TEXTS):
        for start in range(LENGTH):
            attend = Growing()
            rows = slice(0, start + 1)
            fused = head.fuse(features[text, rows])
            drafted = head(fused, embeddings[text, rows], torch.arange(start + 1), attend)[-1:]
            torch.testing.assert_close(outputs[0][text, start], drafted[0])
            for step in range(1, min(STEPS, LENGTH - start)):
                token = embeddings[text, start + step : start + step + 1]
                drafted = head(head.fed_back(drafted), token, torch.tensor([start + step]), attend)
                torch.testing.assert_close(outputs[step][text, start], drafted[0])


def test_padding_on_the_right_changes_nothing_before_it() -> None:
    head = eagle3_head()
    features, embeddings = torch.randn(1, 8, 36), torch.randn(1, 8, 12)
    short = list(unroll(head, features[:, :6], embeddings[:, :6], 3))
    padded = list(unroll(head, features, embeddings, 3))
    for step, (one, other) in enumerate(zip(short, padded, strict=True)):
        torch.testing.assert_close(one[:, : 6 - step], other[:, : 6 - step])


def test_every_weight_that_logits_depend_on_learns_from_the_last_step() -> None:
    head = eagle3_head(feature_norms=True)
    *_, last = unroll(head, torch.randn(2, 6, 36), torch.randn(2, 6, 12), 3)
    head.logits(last)[:, :4].logsumexp(-1).sum().backward()
    assert [name for name, weight in head.named_parameters() if weight.grad is None] == []
    assert all(bool(weight.grad.abs().sum() > 0) for weight in head.parameters() if weight.grad is not None)


def test_a_step_sees_no_other_position_of_the_steps_before_but_the_first() -> None:
    attend = Unrolled()
    generator = torch.Generator().manual_seed(3)
    q = [torch.randn(1, 5, 4, 6, generator=generator) for _ in range(3)]
    k = [torch.randn(1, 5, 2, 6, generator=generator) for _ in range(3)]
    v = [torch.randn(1, 5, 2, 6, generator=generator).requires_grad_() for _ in range(3)]
    for step in range(3):
        mixed = attend(q[step], k[step], v[step])
    mixed[0, 3].sum().backward()
    seen = [values.grad.abs().sum((0, 2, 3)) > 0 for values in v if values.grad is not None]
    assert seen[0].tolist() == [True, True, True, True, False]
    assert seen[1].tolist() == seen[2].tolist() == [False, False, False, True, False]
