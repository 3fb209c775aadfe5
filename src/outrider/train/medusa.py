"""Training Medusa heads beside a target that stays as it is.

Cai et al. 2024, "Medusa" (arXiv 2401.10774), section 2.2.1 ("Medusa-1"), with the target's laws in place of
single tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.heads.medusa import MedusaHeads
from outrider.train.head_training import Ahead, HeadTraining
from outrider.train.teacher import Teacher


class MedusaTraining(HeadTraining[MedusaHeads]):
    """The task of Medusa heads; `norm [H]` and `eps` are of the target's final norm."""

    def __init__(
        self,
        heads: MedusaHeads,
        teacher: Teacher,
        decay: float,
        norm: Tensor,
        eps: float,
        *,
        export: Callable[[MedusaHeads, Path], None],
        precision: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        ids = heads.target_ids
        if ids is None:
            ids = torch.arange(heads.config.vocab_size, device=norm.device)
        ahead = Ahead(heads.config.heads, decay)
        super().__init__(heads, teacher, ahead, target_ids=ids, export=export, precision=precision)
        self._norm, self._eps = norm, eps

    def outputs(self, features: Tensor, tokens: Tensor) -> Iterator[Tensor]:
        """Yield the target's last hidden state for every head: they differ in what they make of it."""
        hidden = F.rms_norm(features[:, :, 0], self._norm.shape, self._norm, self._eps)
        for _ in range(self._steps):
            yield hidden

    def logits(self, output: Tensor, depth: int) -> Tensor:
        """Return the logits of one head."""
        found: Tensor = self._head.logits(output, depth)
        return found
