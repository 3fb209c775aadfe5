"""Drafters that learn from the target: what they are shown."""

from __future__ import annotations

import math

import pytest

from conftest import VOCAB, RandomTrees, run, toy_model
from outrider.loop.draft.base import Rows
from outrider.loop.verify.score import path_to
from outrider.models.toy import ToyTarget
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree

PROMPT = [0, 1, 2]
PARAMS = SamplingParams(temperature=1.0, seed=3, max_tokens=40, frequency_penalty=0.5)


class Watching(RandomTrees):
    """Compares every row that it is shown with the target's law after the text and the row's own path."""

    def __init__(self, target: ToyTarget) -> None:
        super().__init__(2)
        self.target, self.shown = target, 0

    def observe(self, state: list[int], tree: DraftTree, rows: Rows) -> None:
        assert len(rows) == len(tree) + 1
        for row in range(len(rows)):
            law = self.target.law([*state, *path_to(tree, row)])
            best = sorted((-p, token) for token, p in enumerate(law))[:3]
            for (token, below), (p, wanted) in zip(rows.likely(row, 3), best, strict=True):
                assert token == wanted
                assert below == pytest.approx(math.log(best[0][0] / p), abs=1e-5)
        self.shown += 1


def test_a_drafter_that_observes_sees_the_target_s_own_rows_of_every_step() -> None:
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    drafter = Watching(target)
    [result] = run(toy_model(target), drafter, [PROMPT], PARAMS)
    assert drafter.shown == result.speculation.passes - 1 > 1  # nothing is drafted for the last token
