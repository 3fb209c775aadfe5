"""Typical acceptance: what passes, and that the loss is real, marked and never taken without consent."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
import torch

from conftest import VOCAB, RandomTrees, plain_tokens, run, toy_model
from outrider.errors import OptionError
from outrider.loop.accept.arithmetic import entropy
from outrider.loop.accept.lossy.typical import DELTA, EPSILON, Typical
from outrider.loop.accept.proof import check, prove
from outrider.loop.accept.worlds import Case, guessed
from outrider.models.toy import ToyTarget
from outrider.sampling.keyed import KeyedSource
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree, Guarantee, Scored


class Rows(list[torch.Tensor]):
    def probability(self, row: int, token: int) -> float:
        return float(self[row][token])

    def mode(self, row: int) -> int:
        return int(self[row].argmax())

    def entropy(self, row: int) -> float:
        return entropy(self[row])


def decide(tree: DraftTree, *rows: list[float]) -> tuple[int, ...]:
    scored = Scored(tree, Rows(torch.tensor(row) for row in rows))
    return Typical().decide(scored, KeyedSource(0, 0).for_rule(Typical(), 3)).path


def test_the_entropy_is_in_nats_for_tensors_and_numbers() -> None:
    law = [0.5, 0.25, 0.25, 0.0]
    expected = 0.5 * math.log(2) + 0.5 * math.log(4)
    assert entropy(torch.tensor(law)) == pytest.approx(expected)
    assert entropy(law) == pytest.approx(expected)


def test_a_guess_passes_above_the_threshold_and_not_at_it() -> None:
    even = [0.25] * 4
    assert min(EPSILON, DELTA * math.exp(-math.log(4))) == pytest.approx(0.0225)
    assert decide(DraftTree.chain([2]), even, even) == (0,)
    peaked = [0.94, 0.06, 0.0, 0.0]
    assert DELTA * math.exp(-entropy(peaked)) > 0.06
    assert decide(DraftTree.chain([1]), peaked, even) == ()
    assert decide(DraftTree.chain([0]), peaked, even) == (0,)


def test_the_longest_path_is_kept_and_the_first_of_equals() -> None:
    even = [0.25] * 4
    tree = DraftTree((0, 1, 2, 3), (-1, -1, 1, 1))
    assert decide(tree, even, even, even, even, even) == (1, 2)
    # What hangs below a guess that does not pass is not reached.
    assert decide(tree, [0.97, 0.03, 0.0, 0.0], even, even, even, even) == (0,)


def test_at_temperature_zero_the_text_is_the_plain_text() -> None:
    target, params = ToyTarget(VOCAB, seed=1), SamplingParams(max_tokens=30, ignore_eos=True)
    [result] = run(toy_model(target), RandomTrees(3), [[0, 1]], params, rule="typical", lossy=True)
    assert list(result.token_ids) == plain_tokens(target, [0, 1], params, 30)


def test_every_result_says_that_it_is_lossy() -> None:
    params = SamplingParams(temperature=1.0, seed=1, max_tokens=9, ignore_eos=True)
    model = toy_model(ToyTarget(VOCAB, seed=1))
    [result] = run(model, RandomTrees(3), [[0, 1]], params, rule="typical", lossy=True)
    assert result.speculation.guarantee is Guarantee.LOSSY
    with pytest.raises(OptionError, match="lossy=True"):
        run(model, RandomTrees(3), [[0, 1]], params, rule="typical")


def test_the_law_really_changes() -> None:
    """It is not proved because it does not hold: the check finds it when asked."""
    assert prove(Typical(), cases=1, seed=0) == []
    half = (Fraction(1, 2), Fraction(1, 2))
    case = Case(lambda text: half, (guessed(random.Random(0), 2, (-1,)),), 2)
    assert "probability" in str(check(Typical(), case))
