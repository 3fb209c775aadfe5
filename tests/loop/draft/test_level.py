"""Steps that are timed are those that drafts take, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from outrider.bench.audit.toy_heads import toy_head, toy_medusa
from outrider.cache.base import Cache
from outrider.errors import CapabilityError
from outrider.heads.medusa import MedusaConfig, MedusaHeads
from outrider.loop.draft.eagle import EagleDrafter
from outrider.loop.draft.layerskip import LayerSkipDrafter
from outrider.loop.draft.level import Timed
from outrider.loop.draft.lm import ModelDrafter, model_drafter
from outrider.loop.draft.medusa import MedusaDrafter
from outrider.loop.draft.skip_search import Skips
from outrider.models.base import Batch
from outrider.models.toy import ToyTarget

VOCAB = 12


class Watched(ToyTarget):
    """Notes the rows of its passes, and how long the cache is that they come after."""

    def __init__(self) -> None:
        super().__init__(VOCAB, context_limit=100)
        self.seen: list[tuple[int, int]] = []

    def forward(self, batch: Batch, caches: Sequence[Cache]) -> torch.Tensor:
        self.seen.append((caches[0].length, len(batch)))
        return super().forward(batch, caches)


def drafters() -> dict[str, Timed]:
    target = ToyTarget(VOCAB, context_limit=100)
    return {
        "lm": ModelDrafter(target, VOCAB),
        "tree": model_drafter(target, target, width=3),
        "eagle": EagleDrafter(toy_head(target)),
        "medusa": MedusaDrafter(toy_medusa(target), target),
        "layerskip": LayerSkipDrafter(target, [Skips((1,), 0.5, 0.5)]),
    }


@pytest.mark.parametrize("name", drafters())
def test_every_drafter_with_passes_of_its_own_has_steps_to_time(name: str) -> None:
    probe = drafters()[name].probe()
    for context in (1, 30):
        probe.fill(context)
        for nodes in (1, 4, 2, 8, 8):
            assert probe.time(nodes) > 0


def test_a_step_is_one_pass_over_its_nodes_after_the_whole_text() -> None:
    model = Watched()
    probe = ModelDrafter(model, VOCAB).probe()
    probe.fill(30)
    model.seen.clear()
    for nodes in (1, 4, 4, 1):
        probe.time(nodes)
    assert model.seen == [(31, 1), (31, 4), (31, 4), (31, 1)]


def test_a_single_medusa_head_has_no_steps() -> None:
    target = ToyTarget(VOCAB)
    with pytest.raises(CapabilityError, match="single Medusa head"):
        MedusaDrafter(MedusaHeads(MedusaConfig(VOCAB, VOCAB, 1)), target).probe()


def test_sets_of_layers_are_priced_in_proportion_to_the_one_that_was_timed() -> None:
    target = ToyTarget(VOCAB)
    drafter = LayerSkipDrafter(target, [Skips((1,), 0.9, 0.4), Skips((0, 1), 0.1, 0.2)])
    assert drafter.cost == 0.4
    drafter.price(lambda nodes: 0.6 * nodes)
    assert drafter.cost == 0.6
    assert [each.cost for each in drafter.sets] == pytest.approx([0.6, 0.3])
