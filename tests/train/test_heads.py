"""What heads are trained on: the rows that count, and the target's law for each."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from outrider.heads.eagle3 import Eagle3Head
from outrider.llm import LLM
from outrider.models.checkpoint import open_checkpoint
from outrider.train.eagle3 import Eagle3Training
from outrider.train.head_of import HeadShape, draft_vocabulary, fresh_head, settle
from outrider.train.head_training import Ahead, HeadTraining
from outrider.train.store import Example
from outrider.train.teacher import Teacher
from outrider.train.texts import Texts
from tiny_training import make


class Knowing(HeadTraining[Eagle3Head]):
    """Knows the target's law of the very token that a row is about: its output is where it stands."""

    def __init__(self, head: Eagle3Head, teacher: Teacher, steps: int, late: int = 0) -> None:
        self.late = late
        super().__init__(
            head,
            teacher,
            Ahead(steps),
            target_ids=head.target_ids,
            export=lambda _, __: None,
            precision=contextlib.nullcontext,
        )

    def outputs(self, features: Tensor, tokens: Tensor) -> Iterator[Tensor]:
        self.tokens = tokens
        where = torch.arange(features.shape[1]).expand(features.shape[:2]).float()
        for _ in range(self._steps):
            yield where[..., None]

    def logits(self, output: Tensor, depth: int) -> Tensor:
        assert len(self.tokens) == 1, "one text at a time"
        text = self.whole
        laws = self._teacher.read(text).laws
        at = output[:, 0].long() + 1 + depth + self.late
        found = torch.full((len(at), self._head.config.vocab_size), -1e9)
        rows = at.clamp_max(len(laws) - 1)
        return found.scatter(1, laws.ids[rows].long(), laws.probs[rows].clamp_min(1e-30).log())

    whole = Example((), ())


@pytest.mark.parametrize("late", [0, 1, -1])
def test_a_row_is_judged_by_the_law_of_the_token_it_is_about(
    late: int, llm: LLM, target_directory: Path, texts: Texts
) -> None:
    """A head that knows these laws is always kept, and one that is a token early or late is not."""
    checkpoint = open_checkpoint(str(target_directory))
    head, _ = fresh_head(checkpoint, HeadShape(260), texts.learned, frozenset(), seed=0)
    knowing = Knowing(head, Teacher(llm.model, top=260, captured=(1, 3, 4)), 3, late)
    text = max(texts.learned, key=lambda one: len(one.tokens))
    knowing.whole = text
    found = knowing.judge([text])
    right = [abs(share - 1) < 1e-4 for share in found.kept]
    assert right == [late == 0] * 3
    assert (abs(found.loss) < 1e-4) == (late == 0)


def test_padding_and_company_change_nothing_of_what_a_text_teaches(
    llm: LLM, target_directory: Path, texts: Texts
) -> None:
    """A batch's loss is the mean of its texts' own."""
    task = make("eagle3", llm, target_directory, texts)
    batch = sorted(texts.learned, key=lambda text: len(text.tokens))[::6]
    assert len({len(text.tokens) for text in batch}) > 1
    alone = [task.learn([text]) for text in batch]
    together = task.learn(batch)
    assert together == pytest.approx(sum(alone) / len(alone), rel=1e-4)


@pytest.mark.parametrize("kind", ["eagle3", "medusa", "distill"])
def test_pieces_of_logits_add_up(
    kind: str, llm: LLM, target_directory: Path, texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients gathered piece by piece are those of one piece."""
    found = []
    for rows in (1000, 7):
        monkeypatch.setattr("outrider.train.head_training.ROWS", rows)
        monkeypatch.setattr("outrider.train.distill.ROWS", rows)
        task = make(kind, llm, target_directory, texts)
        loss = task.learn(texts.learned[:4])
        found.append(
            (loss, {name: p.grad.clone() for name, p in task.module.named_parameters() if p.grad is not None})
        )
    (one, grads), (other, pieces) = found
    assert one == pytest.approx(other, rel=1e-5)
    assert grads.keys() == pieces.keys() == {name for name, _ in task.module.named_parameters()}
    for name in grads:
        torch.testing.assert_close(grads[name], pieces[name], rtol=1e-3, atol=1e-5)


def test_the_draft_vocabulary_is_what_was_written_most_often() -> None:
    texts = [Example((9, 9, 9, 9, 5, 7, 7), ((4, 7),)), Example((1, 2, 7, 5, 3), ((1, 5),))]
    assert draft_vocabulary(texts, 2, 12, frozenset()).tolist() == [5, 7]  # what the user said does not count
    assert draft_vocabulary(texts, 3, 12, frozenset({11})).tolist() == [5, 7, 11]
    assert draft_vocabulary(texts, 6, 12, frozenset()).tolist() == [0, 1, 2, 3, 5, 7]


def test_a_fresh_heads_guesses_are_near_to_even(llm: LLM, target_directory: Path, texts: Texts) -> None:
    checkpoint = open_checkpoint(str(target_directory))
    head, embedding = fresh_head(checkpoint, HeadShape(200), texts.learned, frozenset(), seed=0)
    teacher = Teacher(llm.model, top=8, captured=head.config.layers_of(8))
    settle(head, teacher, embedding, texts.learned[:4])
    features = teacher.read(texts.learned[0]).features.transpose(0, 1).flatten(1).float()
    with torch.no_grad():
        assert float(head.fuse(features).square().mean().sqrt()) == pytest.approx(1, abs=0.5)
    task = Eagle3Training(
        head, teacher, Ahead(1), embedding, export=lambda _, __: None, precision=contextlib.nullcontext
    )
    even = math.log(200)
    assert task.judge(texts.learned).loss < even + 1
