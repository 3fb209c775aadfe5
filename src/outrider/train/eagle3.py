"""Training an EAGLE-3 head on its own output, several steps deep.

Li et al. 2025, "EAGLE-3" (arXiv 2503.01840), section 3.2: training-time test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from torch import Tensor

from outrider.heads.eagle3 import Eagle3Head
from outrider.heads.eagle3_unrolled import unroll
from outrider.train.head_training import Ahead, HeadTraining
from outrider.train.teacher import Teacher


class Eagle3Training(HeadTraining[Eagle3Head]):
    """The task of an EAGLE-3 head. `embedding [V, H]` is the target's and stays as it is."""

    def __init__(
        self,
        head: Eagle3Head,
        teacher: Teacher,
        ahead: Ahead,
        embedding: Tensor,
        *,
        export: Callable[[Eagle3Head, Path], None],
        precision: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        super().__init__(head, teacher, ahead, target_ids=head.target_ids, export=export, precision=precision)
        self._embedding = embedding

    def outputs(self, features: Tensor, tokens: Tensor) -> Iterator[Tensor]:
        """Yield what the head's layer gives, step after step."""
        yield from unroll(self._head, features.flatten(2), self._embedding[tokens].float(), self._steps)

    def logits(self, output: Tensor, depth: int) -> Tensor:
        """Return the logits; the matrix is the same for every depth."""
        found: Tensor = self._head.logits(output)
        return found
