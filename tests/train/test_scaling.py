"""What short runs foretell: the law that made them, if there is one, and how far off it is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from outrider.errors import TrainingError
from outrider.llm import LLM
from outrider.train.scaling import Point, fit
from outrider.train.texts import batches, learned_tokens
from tiny_training import make, texts_of

REACH = (0.95, 0.9)


def made(parameters: int, tokens: float, noise: float = 0.0, dice: random.Random | None = None) -> Point:
    """Return what a run would give under a law that is known: s = 0.2, t = 0.3."""
    shares = []
    for factor, most in zip((0.6, 0.8), REACH, strict=True):
        miss = factor * (parameters / 1e6) ** -0.2 * (tokens / 1e5) ** -0.3
        shares.append(most * (1 - miss) + (dice.gauss(0, noise) if dice else 0.0))
    return Point(parameters, round(tokens), REACH, tuple(shares))


RUNS = [made(parameters, tokens) for parameters in (10**6, 4 * 10**6) for tokens in (1e5, 2e5, 4e5)]


def test_a_law_without_noise_is_found_and_foretells_what_was_not_run() -> None:
    law = fit(RUNS)
    assert (law.by_parameters, law.by_tokens) == pytest.approx((0.2, 0.3), abs=1e-6)
    assert law.left_out == pytest.approx(0, abs=1e-6)
    far = made(2 * 10**6, 64e5)
    assert law.kept(far.parameters, far.tokens, REACH) == pytest.approx(far.kept, abs=1e-6)


def test_the_error_that_is_said_is_as_large_as_the_noise() -> None:
    """Over many draws of the same runs, and what is far away is known less well than what is near."""
    dice, errors = random.Random(0), []
    for _ in range(50):
        runs = [made(run.parameters, run.tokens, 0.01, dice) for run in RUNS]
        law = fit(runs)
        assert law.left_out is not None
        errors.append(law.left_out)
        (near, _), (near_low, _) = (law.kept(10**6, 2e5, REACH, e) for e in (0.0, -1.0))
        (far, _), (far_low, _) = (law.kept(10**6, 1e9, REACH, e) for e in (0.0, -1.0))
        assert near_low < near
        assert (REACH[0] - far_low) / (REACH[0] - far) > (REACH[0] - near_low) / (REACH[0] - near)
    assert 0.01 < sum(errors) / len(errors) < 0.025


def test_guesses_are_never_kept_more_often_than_the_draft_vocabulary_allows() -> None:
    law = fit(RUNS)
    assert law.kept(10**9, 1e15, REACH) == pytest.approx(REACH, abs=0.01)
    assert all(share <= most for share, most in zip(law.kept(10**9, 1e15, REACH, 3), REACH, strict=True))


def test_one_size_alone_tells_of_tokens_only() -> None:
    law = fit(RUNS[:3])
    assert law.by_parameters == pytest.approx(0, abs=1e-9)
    assert law.by_tokens == pytest.approx(0.3, abs=1e-6)
    assert fit(RUNS[:2]).left_out is None  # without one of them nothing would be left to tell


def test_runs_of_as_many_tokens_tell_nothing() -> None:
    with pytest.raises(TrainingError, match="give more --minutes"):
        fit([RUNS[0], RUNS[3], RUNS[0]])


def test_tokens_are_counted_as_often_as_they_were_learned_from(llm: LLM, data: Path) -> None:
    texts = texts_of(llm, data).learned
    whole = sum(text.written for text in texts)
    steps = len(batches([len(text.tokens) for text in texts], 3, seed=5, epoch=0))
    assert learned_tokens(texts, 3, seed=5, steps=2 * steps) == 2 * whole
    assert 0 < learned_tokens(texts, 3, seed=5, steps=1) < whole / 2
    assert learned_tokens(texts, 3, seed=5, steps=0) == 0


def test_what_can_be_had_is_the_mass_of_the_draft_vocabulary(
    llm: LLM, target_directory: Path, data: Path
) -> None:
    """A vocabulary of 200 of 260 tokens leaves less than all, and more than any head of it is kept."""
    texts = texts_of(llm, data)
    task = make("eagle3", llm, target_directory, texts)
    (text,) = texts.held[:1]
    reach = task.reach([text])  # type: ignore[attr-defined]
    laws = task._teacher.read(text).laws  # type: ignore[attr-defined]
    known = torch.isin(laws.ids.long(), task.module.target_ids)
    start, end = text.spans[0]
    assert len(text.spans) == 1
    first = (laws.probs * known).sum(dim=-1)[max(start, 2) - 1 : end - 1].mean()
    assert reach[0] == pytest.approx(float(first), rel=1e-5)
    assert all(kept <= most for kept, most in zip(task.judge([text]).kept, reach, strict=True))
