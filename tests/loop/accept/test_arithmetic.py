"""The arithmetic of acceptance gives the same on rationals, floats and tensors."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
import torch

from outrider.loop.accept.arithmetic import acceptance, has_mass, positive_part, residual, without


def dyadic_law(chance: random.Random, size: int) -> list[Fraction]:
    """A law that float32 holds exactly."""
    weights = [0] * size
    for _ in range(16):
        weights[chance.randrange(size)] += 1
    return [Fraction(weight, 16) for weight in weights]


def tensor(law: list[Fraction]) -> torch.Tensor:
    return torch.tensor([float(p) for p in law])


def test_the_published_example_is_accepted_half_of_the_time() -> None:
    assert acceptance([0.3, 0.7], [0.6, 0.4], 0) == 0.5
    assert acceptance(torch.tensor([0.25, 0.75]), torch.tensor([0.5, 0.5]), 0) == 0.5
    assert acceptance([Fraction(3, 10), Fraction(7, 10)], [Fraction(6, 10), Fraction(4, 10)], 1) == 1


@pytest.mark.parametrize("seed", range(40))
def test_rationals_floats_and_tensors_agree(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.randint(1, 6)
    p, q = dyadic_law(chance, size), dyadic_law(chance, size)
    floats = [float(value) for value in p], [float(value) for value in q]
    for token in range(size):
        for exact_q, float_q, tensor_q in ((q, floats[1], tensor(q)), (None, None, None)):
            exact = acceptance(p, exact_q, token)
            assert isinstance(exact, Fraction)
            assert acceptance(floats[0], float_q, token) == float(exact)
            assert acceptance(tensor(p), tensor_q, token) == float(exact)
            left = [float(value) for value in residual(p, exact_q, token)]
            assert list(residual(floats[0], float_q, token)) == left
            found = residual(tensor(p), tensor_q, token)
            assert isinstance(found, torch.Tensor)
            assert found.tolist() == left


def test_accepted_and_replaced_mass_together_give_the_targets_law() -> None:
    chance = random.Random(0)
    for _ in range(200):
        p, q = dyadic_law(chance, 5), dyadic_law(chance, 5)
        passed = [q[x] * Fraction(acceptance(p, q, x)) for x in range(5)]
        left = [Fraction(value) for value in positive_part(p, q)]
        rejected = 1 - sum(passed)
        assert rejected == sum(left)
        assert [a + b for a, b in zip(passed, left, strict=True)] == p


def test_a_guess_that_its_own_law_excludes_never_passes() -> None:
    assert acceptance([0.5, 0.5], [1.0, 0.0], 1) == 0
    assert acceptance(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]), 1) == 0
    assert acceptance([Fraction(1)], [Fraction(0)], 0) == 0


def test_the_residual_does_not_depend_on_the_rejected_guess() -> None:
    p, q = torch.tensor([0.5, 0.25, 0.25, 0.0]), torch.tensor([0.25, 0.5, 0.0, 0.25])
    for token in (1, 3):
        assert residual(p, q, token).tolist() == [0.25, 0.0, 0.25, 0.0]  # type: ignore[union-attr]


def test_laws_that_are_equal_up_to_rounding_leave_a_residual_that_can_be_drawn() -> None:
    """Normalising an empty (p - q)+ gave NaN elsewhere; here what is left is the target's own law."""
    p = torch.tensor([0.3, 0.7, 0.0])
    q = torch.tensor([0.3, torch.nextafter(torch.tensor(0.7), torch.tensor(1.0)).item(), 0.0])
    for left in (residual(p, p, 0), residual(p, q, 1), residual(torch.tensor([0.0, 1.0]), None, 1)):
        assert isinstance(left, torch.Tensor)
        assert bool(left.isfinite().all())
        assert has_mass(left)
    assert residual(p, q, 1) is p


def test_arguments_are_left_as_they_were() -> None:
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.75, 0.25])
    residual(p, q, 0)
    residual(p, None, 0)
    without(p, 1)
    assert p.tolist() == [0.5, 0.5]
    assert q.tolist() == [0.75, 0.25]


def test_laws_over_different_vocabularies_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="shorter"):
        positive_part([0.5, 0.5], [1.0])
    with pytest.raises(RuntimeError):
        positive_part(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0.5, 0.5]))
