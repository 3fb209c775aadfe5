"""One training run: batches in, steps of AdamW, looks at the held-out texts, checkpoints.

All that is random follows from the seed and the number of the step or epoch. A checkpoint holds the weights,
the optimiser and the number of the step, so a run that was killed goes on, on a CPU and with as many threads,
to the same bits. Several processes (`group.py`) share every batch out and stay alike.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from outrider.errors import LoadError, OptionError, TrainingError
from outrider.train.group import ALONE, Group
from outrider.train.interrupt import Stop, stopping
from outrider.train.log import Log
from outrider.train.recipe import Recipe
from outrider.train.run import Run
from outrider.train.store import Example
from outrider.train.task import Judgement, Outcome, Progress, Task
from outrider.train.texts import Texts, batches

READ_AHEAD = 1 / 3
"""Of a run's minutes, what reading ahead may take at most."""
FIRST_STEPS = 10
"""After so many steps of a run the time of one is known well enough to plan by."""
EPOCHS_AHEAD = 10
"""After so many epochs each of several processes has met nearly all texts."""


def train(
    task: Task,
    texts: Texts,
    recipe: Recipe,
    run: Run,
    report: Callable[[Progress], None] = lambda _: None,
    reading: Callable[[int, int], None] = lambda _, __: None,
    group: Group = ALONE,
) -> Outcome:
    """Train until the plan is done, time is over or someone asks to stop; save, and write the result.

    Goes on from the run's checkpoint where there is one. TrainingError where the loss or a gradient is no
    number, or the disk is full: the last checkpoint then stands. `reading` is told how many texts have been
    read ahead, and of how many. A recipe's batch is one process's; the first of several reports, judges and
    writes.
    """
    with stopping() as stop:
        return _Training(task, texts, recipe, run, report, group).go(stop, reading)


class _Training:
    def __init__(
        self,
        task: Task,
        texts: Texts,
        recipe: Recipe,
        run: Run,
        report: Callable[[Progress], None],
        group: Group,
    ) -> None:
        self._task, self._texts, self._recipe, self._run, self._report = task, texts, recipe, run, report
        self._group = group
        self._learned = [p for p in task.module.parameters() if p.requires_grad]
        self._optimiser = torch.optim.AdamW(
            self._learned, lr=recipe.lr, betas=recipe.betas, weight_decay=recipe.decay, fused=True
        )
        self._lengths = [len(text.tokens) for text in texts.learned]
        an_epoch = len(self._batches(0))
        self._an_epoch, self._most = an_epoch, max(1, round(an_epoch * recipe.epochs))
        self._epoch, self._order = -1, list[list[int]]()
        self._step, self._seconds, self._log_bytes = 0, 0.0, 0
        self._planned: int | None = None if recipe.minutes is not None else self._most
        self._minutes = recipe.minutes
        self._judgement: Judgement | None = None
        self._judged = -1
        self._times = deque[float](maxlen=50)
        """Seconds of the last steps."""
        self._log: Log | None = None
        self._resume()
        group.begin_alike(task.module, f"{texts.digest} {self._step}")

    def go(self, stop: Stop, reading: Callable[[int, int], None]) -> Outcome:
        """Read ahead, run the steps."""
        self._read_ahead(stop, reading)
        reason, saved = "done", time.monotonic()
        group = self._group
        with self._logging():
            if self._step == 0:
                self._judge()
                self._save()
            while self._planned is None or self._step < self._planned:
                stopped = group.sum(stop.wanted) > 0
                if stopped or self._is_over:
                    reason = "stopped" if stopped else "time"
                    break
                self._one_step()
                if group.first(time.monotonic() - saved) > self._recipe.save_seconds:
                    self._save()
                    saved = time.monotonic()
            if reason != "stopped":
                self._judge()
            self._save()
        group.write(lambda: self._task.export(self._run.out))
        return Outcome(reason, self._step, self._seconds, self._judgement)

    @property
    def _is_over(self) -> bool:
        return self._minutes is not None and self._seconds >= 60 * self._minutes

    def _read_ahead(self, stop: Stop, reading: Callable[[int, int], None]) -> None:
        """Read first, so that the steps' time is known; a run that goes on is not charged for it again."""
        if self._planned is not None and self._step >= self._planned:
            return
        begun = time.monotonic()
        texts = self._own_texts()
        for count, _ in enumerate(self._task.read_ahead(texts), start=1):
            reading(count, len(texts))
            late = self._minutes and time.monotonic() - begun > 60 * self._minutes * READ_AHEAD
            if stop.wanted or late:
                break
        seconds = self._group.first(time.monotonic() - begun)
        if self._step == 0:
            self._seconds += seconds

    def _own_texts(self) -> Sequence[Example]:
        """Return the texts that this process will learn from."""
        if self._group.size == 1:
            return self._texts.learned
        ahead = range(min(math.ceil(self._recipe.epochs), EPOCHS_AHEAD))
        parts = (self._group.share(batch) for epoch in ahead for batch in self._batches(epoch))
        own = dict.fromkeys(itertools.chain.from_iterable(parts))
        return [self._texts.learned[index] for index in own]

    def _one_step(self) -> None:
        begun = time.monotonic()
        batch = self._batch()
        rate = self._recipe.rate(self._step, self._planned)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        batch = self._task.begin_step(self._step, batch)
        self._optimiser.zero_grad(set_to_none=True)
        loss = self._learn(batch)
        norm = float(nn.utils.clip_grad_norm_(self._learned, self._recipe.clip))
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise TrainingError(
                f"step {self._step + 1} gave a loss of {loss} and gradients of norm {norm}: learning came "
                f"apart. The last checkpoint stands; continue with --resume and an --lr below {rate:.2g}"
            )
        self._optimiser.step()
        self._step += 1
        seconds = self._group.first(time.monotonic() - begun)
        self._seconds += seconds
        self._plan(seconds)
        self._note({"step": self._step, "loss": loss, "lr": rate, "norm": norm, "seconds": self._seconds})
        if self._step % self._recipe.judge_every == 0:
            self._judge()
        tokens = sum(len(text.tokens) for text in batch)
        self._report(
            Progress(
                self._step,
                self._planned,
                loss,
                rate,
                tokens / max(seconds, 1e-9),
                self._seconds_left(),
                self._judgement,
            )
        )

    def _learn(self, batch: Sequence[Example]) -> float:
        """Run forward and backward over this process's part of a batch; the loss is that of all of it."""
        own = self._group.share(batch)
        weight = len(own) / len(batch)
        loss = self._task.learn(own) if own else 0.0
        self._group.average(self._learned, weight)
        return self._group.sum(loss * weight)

    def _batches(self, epoch: int) -> list[list[int]]:
        size = self._recipe.batch * self._group.size
        return batches(self._lengths, size, seed=self._recipe.seed, epoch=epoch)

    def _batch(self) -> Sequence[Example]:
        epoch, place = divmod(self._step, self._an_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._batches(epoch)
        return [self._texts.learned[index] for index in self._order[place]]

    def _plan(self, seconds: float) -> None:
        """Once the time of a step is known, say how many fit into the minutes."""
        self._times.append(seconds)
        if self._planned is None and len(self._times) >= FIRST_STEPS:
            assert self._minutes is not None
            left = 60 * self._minutes - self._seconds
            more = int(left / statistics.median(self._times))
            self._planned = min(self._most, self._step + max(0, more))

    def _seconds_left(self) -> float | None:
        if self._planned is None:
            return None if self._minutes is None else max(0.0, 60 * self._minutes - self._seconds)
        return (self._planned - self._step) * statistics.fmean(self._times)

    def _judge(self) -> None:
        if self._judged == self._step:
            return
        self._judged = self._step
        begun = time.monotonic()
        found = self._task.judge(self._texts.held) if self._group.leads else None
        self._seconds += self._group.first(time.monotonic() - begun)
        if found is not None:
            self._judgement = found
            line = {"step": self._step, "held_loss": found.loss, "kept": found.kept}
            more = {"agreeing": found.agreeing, "accepted_length": found.accepted_length}
            self._note({**line, **more, "seconds": self._seconds})

    @contextlib.contextmanager
    def _logging(self) -> Iterator[None]:
        """Have the first process write a log meanwhile."""
        if not self._group.leads:
            yield
            return
        with Log(self._run.log, self._log_bytes) as self._log:
            yield

    def _note(self, line: dict[str, Any]) -> None:
        if self._log is not None:
            self._log.write(line)

    def _save(self) -> None:
        self._group.write(self._write_checkpoint)

    def _write_checkpoint(self) -> None:
        assert self._log is not None
        self._log.flush()
        self._run.save(
            {
                "texts": self._texts.digest,
                "step": self._step,
                "seconds": self._seconds,
                "planned": self._planned,
                "minutes": self._minutes,
                "log_bytes": self._log.bytes,
                "module": self._task.module.state_dict(),
                "optimiser": self._optimiser.state_dict(),
                "task": self._task.state(),
            }
        )

    def _resume(self) -> None:
        state = self._run.load()
        if state is None:
            return
        if state["texts"] != self._texts.digest:
            raise OptionError(
                "the texts are not those that this run was begun with (was data added?); give the same, or "
                "begin anew in a new directory"
            )
        try:
            self._task.module.load_state_dict(state["module"])
            self._optimiser.load_state_dict(state["optimiser"])
        except (RuntimeError, ValueError, KeyError) as error:
            raise LoadError(f"{str(self._run.checkpoint)!r} is of another module: {error}") from error
        self._task.take_state(state["task"])
        self._step, self._seconds, self._log_bytes = state["step"], state["seconds"], state["log_bytes"]
        if self._minutes is not None and state["minutes"] == self._minutes:
            self._planned = state["planned"]
        elif self._minutes is not None and self._step:
            left = max(0.0, 60 * self._minutes - self._seconds)  # another plan, by the steps so far
            self._planned = min(self._most, self._step + int(left * self._step / self._seconds))
