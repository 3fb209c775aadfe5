from __future__ import annotations

from collections.abc import Sequence

import torch

from outrider.bench.curve import measure_targets
from outrider.models.base import Batch
from outrider.planner.probe import PREFILL_CHUNK, TargetProbe


class CountingCache:
    can_rewind = True
    nbytes = 0

    def __init__(self) -> None:
        self.length = 0
        self.pending = 0

    def keep(self, rows: Sequence[int]) -> None:
        assert len(rows) <= self.pending
        self.length += len(rows)
        self.pending = 0

    def truncate(self, length: int) -> None:
        self.length = length


class CountingTarget:
    vocab_size = 10
    context_limit = 2000
    can_branch = False
    can_capture = False

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def new_cache(self) -> CountingCache:
        return CountingCache()

    def forward(self, batch: Batch, caches: Sequence[CountingCache]) -> torch.Tensor:
        assert batch.positions == tuple(range(caches[0].length, caches[0].length + len(batch)))
        assert batch.parents == tuple(range(-1, len(batch) - 1))
        caches[0].pending += len(batch)
        self.batches.append(batch)
        return torch.zeros(len(batch.wanted), self.vocab_size)


def test_a_probe_fills_in_chunks_and_undoes_what_it_times() -> None:
    target = CountingTarget()
    probe = TargetProbe(target)
    probe.fill(PREFILL_CHUNK + 3)
    assert [len(batch) for batch in target.batches] == [PREFILL_CHUNK, 3]
    for rows in (4, 1, 4):
        assert probe.time(rows) >= 0
        assert target.batches[-1].wanted == tuple(range(rows))
        assert target.batches[-1].positions[0] == PREFILL_CHUNK + 3


def test_a_curve_times_passes_at_each_context() -> None:
    curves = measure_targets(
        [CountingTarget(), CountingTarget()], contexts=(5, 7, 1990), rows=(1, 2, 16), repeats=2
    )
    wanted = [(context, rows) for context in (5, 7) for rows in (1, 2, 16)]
    assert [[(point.context, point.rows) for point in points] for points in curves] == [wanted, wanted]
