"""Training heads that guess several tokens ahead from what the target's layers hold.

The target's law of each token is the soft target, cut to the draft vocabulary; guesses further ahead count
less. Texts count alike, whatever their length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from outrider.heads.eagle3 import Eagle3Head
from outrider.heads.medusa import MedusaHeads
from outrider.train.divergence import forward_kl, forward_kl_of_logits
from outrider.train.readings import Laws
from outrider.train.store import Example
from outrider.train.task import Judgement
from outrider.train.teacher import Teacher
from outrider.train.texts import padded, written

ROWS = 1024
"""Rows whose logits, with their gradients, are held at once."""
Kind = TypeVar("Kind", bound=Eagle3Head | MedusaHeads)


@dataclass(frozen=True, slots=True)
class Ahead:
    """How far ahead a head learns to guess: `steps` tokens, each counting `decay` of the one before."""

    steps: int
    decay: float = 0.8


@dataclass(frozen=True, slots=True)
class Step:
    """The rows of one depth that count: what the head gives there, and what the target says.

    `output [R, H]`, `laws` of R rows over the target's tokens, `texts [R]`: the number of each row's text.
    """

    output: Tensor
    laws: Laws
    texts: Tensor


class HeadTraining(Generic[Kind]):
    """The task of a head (see `task.Task`). `export` writes it."""

    def __init__(
        self,
        head: Kind,
        teacher: Teacher,
        ahead: Ahead,
        *,
        target_ids: Tensor,
        export: Callable[[Kind, Path], None],
        precision: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._head, self._teacher = head, teacher
        self._steps, self._decay = ahead.steps, ahead.decay
        self._export, self._precision = export, precision
        self._ids, self._device = target_ids, target_ids.device
        self._draft_ids = torch.full((head.config.vocab_size,), -1, device=self._device)
        self._draft_ids[target_ids] = torch.arange(len(target_ids), device=self._device)

    @property
    def module(self) -> Kind:
        """The head."""
        return self._head

    def outputs(self, features: Tensor, tokens: Tensor) -> Iterator[Tensor]:
        """Yield for each depth j `[B, T, H]`, which at t is about the token at t + 2 + j.

        `features [B, T, n, Ht]` of positions t, and `tokens [B, T]` at t + 1.
        """
        raise NotImplementedError

    def logits(self, output: Tensor, depth: int) -> Tensor:
        """Return the logits of a depth's outputs, `[R, H]` to `[R, Vd]`."""
        raise NotImplementedError

    def read_ahead(self, texts: Sequence[Example]) -> Iterator[None]:
        """Have the target read texts, as far as they can be kept."""
        return self._teacher.read_ahead(texts)

    def begin_step(self, step: int, batch: Sequence[Example]) -> Sequence[Example]:
        """Do nothing: all is there."""
        return batch

    def learn(self, batch: Sequence[Example]) -> float:
        """Run forward and backward: Σ decay^j times the loss of step j."""
        outputs, grads, total = [], [], 0.0
        with self._precision():
            for depth, step in enumerate(self._unrolled(batch)):
                rows, p = self._soft_targets(step)
                output, texts = step.output[rows], step.texts[rows]
                if not len(output):
                    continue
                weights = self._decay**depth * _each_text_alike(texts, len(batch))
                ids = self._draft_ids[step.laws.ids[rows].long()].clamp_min(0)
                leaf = output.detach().requires_grad_()
                for start in range(0, len(output), ROWS):
                    part = slice(start, start + ROWS)
                    logits = self.logits(leaf[part], depth)
                    loss, gradient = forward_kl_of_logits(logits.detach(), ids[part], p[part], weights[part])
                    torch.autograd.backward(logits, gradient.to(logits.dtype))  # gathers in leaf.grad
                    total += float(loss)
                assert leaf.grad is not None
                if output.requires_grad:
                    outputs.append(output)
                    grads.append(leaf.grad)
        if outputs:
            torch.autograd.backward(outputs, grads)
        return total

    @torch.no_grad()
    def judge(self, held: Sequence[Example]) -> Judgement:
        """Look at held-out texts one by one; every written token counts, in the draft vocabulary or not."""
        sums = torch.zeros(2, self._steps, dtype=torch.float64)
        counts, loss = torch.zeros(self._steps, dtype=torch.float64), 0.0
        for text in held:
            for depth, step in enumerate(self._unrolled([text])):
                if not len(step.output):
                    continue
                log_q, logits = self._law(step.output, step.laws.ids, depth)
                likeliest = self._ids[logits.argmax(dim=-1)]
                kept = torch.minimum(step.laws.probs, log_q.exp()).sum(dim=-1)
                agreeing = likeliest == step.laws.ids[:, 0]
                sums[0, depth] += float(kept.mean())
                sums[1, depth] += float(agreeing.float().mean())
                counts[depth] += 1
                rows, p = self._soft_targets(step)
                if bool(rows.any()):
                    loss += self._decay**depth * float(forward_kl(p, _finite(log_q[rows])).mean())
        kept_share, agreeing_share = (sums / counts.clamp_min(1)).tolist()
        return Judgement(loss / len(held), tuple(kept_share), tuple(agreeing_share))

    @torch.no_grad()
    def reach(self, held: Sequence[Example]) -> tuple[float, ...]:
        """Return what no head of this draft vocabulary could pass in `Judgement.kept`, by depth."""
        sums, counts = [0.0] * self._steps, [0] * self._steps
        for text in held:
            for depth, step in enumerate(self._unrolled([text])):
                if len(step.output):
                    known = self._draft_ids[step.laws.ids.long()] >= 0
                    sums[depth] += float((step.laws.probs * known).sum(dim=-1).mean())
                    counts[depth] += 1
        return tuple(total / max(1, count) for total, count in zip(sums, counts, strict=True))

    def state(self) -> dict[str, Any]:
        """Return nothing: the head is all there is."""
        return {}

    def take_state(self, state: dict[str, Any]) -> None:
        """Take nothing."""

    def export(self, directory: Path) -> None:
        """Write the head in the form in which it is exchanged."""
        self._export(self._head, directory)

    def _unrolled(self, batch: Sequence[Example]) -> Iterator[Step]:
        """Yield the steps of a batch."""
        readings = [self._teacher.read(text) for text in batch]
        tokens, mask = padded(batch), written(batch)
        device, longest = self._device, tokens.shape[1]
        shape = readings[0].features.shape
        features = torch.zeros(len(batch), longest - 1, shape[0], shape[2])
        ids = torch.zeros(len(batch), longest, self._teacher.top, dtype=torch.int32)
        probs = torch.zeros(len(batch), longest, self._teacher.top)
        for row, reading in enumerate(readings):
            count = len(reading.laws)
            features[row, : count - 1] = reading.features[:, :-1].transpose(0, 1)
            ids[row, :count], probs[row, :count] = reading.laws.ids, reading.laws.probs
        outputs = self.outputs(features.to(device), tokens[:, 1:].to(device))
        texts = torch.arange(len(batch))[:, None].expand_as(mask)
        for depth, output in enumerate(outputs):
            about = mask[:, 2 + depth :]  # the token that row t is about, t from 0
            count = about.shape[1]
            laws = slice(1 + depth, 1 + depth + count)
            yield Step(
                output[:, :count][about.to(device)],
                Laws(ids[:, laws][about].to(device), probs[:, laws][about].to(device)),
                texts[:, :count][about].to(device),
            )

    def _soft_targets(self, step: Step) -> tuple[Tensor, Tensor]:
        """Return which rows count, those whose likeliest token has a draft id, and their `p [R', K]`.

        `p` holds no more than the draft vocabulary, and sums to 1 there.
        """
        known = self._draft_ids[step.laws.ids.long()] >= 0
        rows = known[:, 0]
        p = step.laws.probs[rows] * known[rows]
        return rows, p / p.sum(dim=-1, keepdim=True)

    def _law(self, output: Tensor, ids: Tensor, depth: int) -> tuple[Tensor, Tensor]:
        """Return the head's log law at these target tokens, `[R, K]`, and its logits `[R, Vd]`.

        −inf stands where a token has no draft id.
        """
        logits = self.logits(output, depth).float()
        draft_ids = self._draft_ids[ids.long()]
        found = logits.gather(-1, draft_ids.clamp_min(0)) - logits.logsumexp(dim=-1, keepdim=True)
        return found.masked_fill(draft_ids < 0, float("-inf")), logits


def _finite(log_q: Tensor) -> Tensor:
    """Put 0 for −inf: what has no draft id has no part in a restricted law, and 0 · inf is no number."""
    return log_q.masked_fill(log_q == float("-inf"), 0.0)


def _each_text_alike(texts: Tensor, count: int) -> Tensor:
    """Return weights of rows: within a text they are alike, and each of `count` texts has as much."""
    rows = torch.bincount(texts, minlength=count)
    return 1.0 / (rows[texts] * count)
