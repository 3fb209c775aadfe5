"""Distillation: a small model learns the target's laws on texts that the target, or it itself, wrote.

Zhou et al. 2024, "DistillSpec: Improving Speculative Decoding via Knowledge Distillation" (arXiv 2310.08461):
the losses of section 4.1, and in part the drafts' own texts of algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outrider.models.base import LoadedModel
from outrider.train.divergence import LOSSES, kept_share, with_rest
from outrider.train.own_texts import OwnTexts
from outrider.train.readings import Laws
from outrider.train.store import Example
from outrider.train.student import Student
from outrider.train.task import Judgement
from outrider.train.teacher import Teacher
from outrider.train.texts import padded, written

ROWS = 256
"""Rows whose logits over the whole vocabulary, with their gradients, are held at once."""
DEPTHS = 4
"""Of drafts whose length is estimated: along a given text a model is as good at every depth."""


class Distill:
    """The task of a student (see `task.Task`). `loss`: "fkl", "rkl" or "tv"."""

    def __init__(
        self,
        student: Student,
        teacher: Teacher,
        model: LoadedModel,
        *,
        loss: str = "fkl",
        own: OwnTexts | None = None,
        precision: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._student, self._teacher, self._model = student, teacher, model
        self._loss, self._own, self._precision = LOSSES[loss], own, precision

    @property
    def module(self) -> Student:
        """The student."""
        return self._student

    def read_ahead(self, texts: Sequence[Example]) -> Iterator[None]:
        """Have the target read texts, as far as they can be kept."""
        return self._teacher.read_ahead(texts)

    def begin_step(self, step: int, batch: Sequence[Example]) -> Sequence[Example]:
        """Have the student write texts anew where that is due; return the batch with its share of them."""
        if self._own is None:
            return batch
        self._own.begin_step(step, self._student)
        return self._own.mixed(batch, step)

    def learn(self, batch: Sequence[Example]) -> float:
        """Run forward and backward: the mean over texts of the mean over their written tokens."""
        with self._precision():
            states, laws, weights = self._rows(batch)
            leaf = states.detach().requires_grad_()
            total = 0.0
            for start in range(0, len(laws), ROWS):
                part = slice(start, start + ROWS)
                logits = self._student.logits(leaf[part])
                p, log_q = with_rest(laws[part], logits)
                loss = (self._loss(p, log_q) * weights[part]).sum()
                torch.autograd.backward(
                    loss
                )  # frees this part's logits; what they say to the states gathers in leaf.grad
                total += float(loss.detach())
        assert leaf.grad is not None
        torch.autograd.backward(states, leaf.grad)
        return total

    @torch.no_grad()
    def judge(self, held: Sequence[Example]) -> Judgement:
        """Look at held-out texts one by one."""
        found = torch.zeros(3, dtype=torch.float64)
        for text in held:
            states, laws, weights = self._rows([text])
            for start in range(0, len(laws), ROWS):
                part = slice(start, start + ROWS)
                logits = self._student.logits(states[part])
                p, log_q = with_rest(laws[part], logits)
                agree = logits.argmax(dim=-1) == laws.ids[part, 0]
                rows = torch.stack([self._loss(p, log_q), kept_share(p, log_q), agree.float()])
                found += (rows * weights[part]).sum(dim=-1).double().cpu()
        loss, kept, agreeing = (found / len(held)).tolist()
        return Judgement(loss, (kept,) * DEPTHS, (agreeing,) * DEPTHS)

    def state(self) -> dict[str, Any]:
        """Return the texts that the student wrote last."""
        return {} if self._own is None else self._own.state()

    def take_state(self, state: dict[str, Any]) -> None:
        """Go on with such texts."""
        if self._own is not None:
            self._own.take_state(state)

    def export(self, directory: Path) -> None:
        """Write the student as a Hugging Face directory, which `lm:DIRECTORY` drafts with."""
        self._student.write(directory, self._model.tokenizer)

    def _rows(self, batch: Sequence[Example]) -> tuple[Tensor, Laws, Tensor]:
        """Return states, laws and weights of all rows after which a written token stands.

        Weights sum to 1: every text counts alike, and within it every row.
        """
        states = self._student.states(padded(batch).to(self._student.device))
        mask = written(batch)[:, 1:]
        weights = mask / mask.sum(dim=1, keepdim=True) / len(batch)
        ids, probs = [], []
        for text, row in zip(batch, mask, strict=True):
            laws, rows = self._teacher.read(text).laws, row[: len(text.tokens) - 1]
            ids.append(laws.ids[:-1][rows])
            probs.append(laws.probs[:-1][rows])
        found = Laws(torch.cat(ids).to(states.device), torch.cat(probs).to(states.device))
        mask = mask.to(states.device)
        return states[:, :-1][mask], found, weights.to(states.device)[mask]
