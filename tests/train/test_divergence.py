from __future__ import annotations

import pytest
import torch

from outrider.train.divergence import LOSSES, forward_kl, forward_kl_of_logits, kept_share, with_rest
from outrider.train.readings import Laws


def laws_of(p: torch.Tensor, top: int) -> Laws:
    found = p.topk(top, dim=-1)
    return Laws(found.indices.to(torch.int32), found.values)


@pytest.mark.parametrize("name", LOSSES)
def test_over_the_whole_vocabulary_a_loss_is_what_its_name_says(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    p, logits = (torch.randn(5, 9, generator=generator, dtype=torch.float64) for _ in range(2))
    p, q = p.softmax(-1), logits.softmax(-1)
    expected = {
        "fkl": (p * (p / q).log()).sum(-1),
        "rkl": (q * (q / p).log()).sum(-1),
        "tv": (p - q).abs().sum(-1) / 2,
    }
    found = LOSSES[name](*with_rest(laws_of(p.float(), 9), logits))
    torch.testing.assert_close(found, expected[name].float(), rtol=1e-4, atol=1e-5)
    kept = kept_share(*with_rest(laws_of(p.float(), 9), logits))
    torch.testing.assert_close(kept, torch.minimum(p, q).sum(-1).float())


@pytest.mark.parametrize("name", LOSSES)
def test_cut_laws_never_make_a_draft_look_worse_than_it_is_nor_an_acceptance_better(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    p, logits = (
        torch.randn(40, 30, generator=generator).mul(2).softmax(-1),
        torch.randn(40, 30, generator=generator),
    )
    whole, cut = (with_rest(laws_of(p, top), logits) for top in (30, 6))
    assert bool((LOSSES[name](*cut) <= LOSSES[name](*whole) + 1e-5).all())
    assert bool((kept_share(*cut) <= kept_share(*whole) + 1e-6).all())


@pytest.mark.parametrize("name", LOSSES)
def test_a_draft_that_is_the_target_loses_nothing_and_has_nothing_to_learn(name: str) -> None:
    logits = torch.randn(3, 8, generator=torch.Generator().manual_seed(2)).requires_grad_()
    loss = LOSSES[name](*with_rest(laws_of(logits.detach().softmax(-1), 5), logits)).sum()
    torch.autograd.backward(loss)
    assert float(loss.detach()) == pytest.approx(0, abs=1e-5)
    if name != "tv":  # which has a kink there
        assert logits.grad is not None
        assert float(logits.grad.abs().max()) < 1e-5


def test_the_gradient_of_forward_kl_that_is_written_out_is_that_of_autograd() -> None:
    dice = torch.Generator().manual_seed(1)
    logits = torch.randn(5, 11, generator=dice, requires_grad=True)
    ids = torch.stack([torch.randperm(11, generator=dice)[:4] for _ in range(5)])
    p = torch.rand(5, 4, generator=dice) * torch.tensor([1.0, 1, 1, 0])
    p = p / p.sum(dim=-1, keepdim=True)
    weights = torch.rand(5, generator=dice)
    log_q = logits.gather(-1, ids) - logits.logsumexp(dim=-1, keepdim=True)
    expected = (forward_kl(p, log_q) * weights).sum()
    expected.backward()
    loss, gradient = forward_kl_of_logits(logits.detach(), ids, p, weights)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(gradient, logits.grad)
