"""One training run: batches in, steps of AdamW, looks at the held-out texts, checkpoints.

All that is random follows from the seed and the number of the step or epoch. A checkpoint holds the weights,
the optimiser and the number of the step, so a run that was killed goes on, on a CPU and with as many threads,
to the same bits.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable

import torch
from torch import nn

from outrider.errors import LoadError, OptionError, TrainingError
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


def train(
    task: Task,
    texts: Texts,
    recipe: Recipe,
    run: Run,
    report: Callable[[Progress], None] = lambda _: None,
    reading: Callable[[int, int], None] = lambda _, __: None,
) -> Outcome:
    """Train until the plan is done, time is over or someone asks to stop; save, and write the result.

    Goes on from the run's checkpoint where there is one. TrainingError where the loss or a gradient is no
    number, or the disk is full: the last checkpoint then stands. `reading` is told how many texts have been
    read ahead, and of how many.
    """
    with stopping() as stop:
        return _Training(task, texts, recipe, run, report).go(stop, reading)


class _Training:
    def __init__(
        self, task: Task, texts: Texts, recipe: Recipe, run: Run, report: Callable[[Progress], None]
    ) -> None:
        self._task, self._texts, self._recipe, self._run, self._report = task, texts, recipe, run, report
        self._learned = [p for p in task.module.parameters() if p.requires_grad]
        self._optimiser = torch.optim.AdamW(
            self._learned, lr=recipe.lr, betas=recipe.betas, weight_decay=recipe.decay, fused=True
        )
        self._lengths = [len(text.tokens) for text in texts.learned]
        an_epoch = len(batches(self._lengths, recipe.batch, seed=recipe.seed, epoch=0))
        self._an_epoch, self._most = an_epoch, max(1, round(an_epoch * recipe.epochs))
        self._epoch, self._order = -1, list[list[int]]()
        self._step, self._seconds, self._log_bytes = 0, 0.0, 0
        self._planned: int | None = None if recipe.minutes is not None else self._most
        self._minutes = recipe.minutes
        self._judgement: Judgement | None = None
        self._judged = -1
        self._times = deque[float](maxlen=50)
        """Seconds of the last steps."""
        self._resume()

    def go(self, stop: Stop, reading: Callable[[int, int], None]) -> Outcome:
        """Read ahead, run the steps."""
        self._read_ahead(stop, reading)
        reason, saved = "done", time.monotonic()
        with Log(self._run.log, self._log_bytes) as self._log:
            if self._step == 0:
                self._judge()
                self._save()
            while self._planned is None or self._step < self._planned:
                if stop.wanted or self._is_over:
                    reason = "stopped" if stop.wanted else "time"
                    break
                self._one_step()
                if time.monotonic() - saved > self._recipe.save_seconds:
                    self._save()
                    saved = time.monotonic()
            if reason != "stopped":
                self._judge()
            self._save()
        self._task.export(self._run.out)
        return Outcome(reason, self._step, self._seconds, self._judgement)

    @property
    def _is_over(self) -> bool:
        return self._minutes is not None and self._seconds >= 60 * self._minutes

    def _read_ahead(self, stop: Stop, reading: Callable[[int, int], None]) -> None:
        """Read first, so that the steps' time is known; a run that goes on is not charged for it again."""
        if self._planned is not None and self._step >= self._planned:
            return
        begun = time.monotonic()
        for count, _ in enumerate(self._task.read_ahead(self._texts.learned), start=1):
            reading(count, len(self._texts.learned))
            late = self._minutes and time.monotonic() - begun > 60 * self._minutes * READ_AHEAD
            if stop.wanted or late:
                break
        if self._step == 0:
            self._seconds += time.monotonic() - begun

    def _one_step(self) -> None:
        begun = time.monotonic()
        batch = self._batch()
        rate = self._recipe.rate(self._step, self._planned)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._task.begin_step(self._step)
        self._optimiser.zero_grad(set_to_none=True)
        loss = self._task.learn(batch)
        norm = float(nn.utils.clip_grad_norm_(self._learned, self._recipe.clip))
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise TrainingError(
                f"step {self._step + 1} gave a loss of {loss} and gradients of norm {norm}: learning came "
                f"apart. The last checkpoint stands; continue with --resume and an --lr below {rate:.2g}"
            )
        self._optimiser.step()
        self._step += 1
        seconds = time.monotonic() - begun
        self._seconds += seconds
        self._plan(seconds)
        self._log.write(
            {"step": self._step, "loss": loss, "lr": rate, "norm": norm, "seconds": self._seconds}
        )
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

    def _batch(self) -> list[Example]:
        epoch, place = divmod(self._step, self._an_epoch)
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = batches(self._lengths, self._recipe.batch, seed=self._recipe.seed, epoch=epoch)
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
        self._judgement = found = self._task.judge(self._texts.held)
        self._seconds += time.monotonic() - begun
        line = {"step": self._step, "held_loss": found.loss, "kept": found.kept, "agreeing": found.agreeing}
        self._log.write({**line, "accepted_length": found.accepted_length, "seconds": self._seconds})

    def _save(self) -> None:
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
        if self._recipe.minutes is not None and state["minutes"] == self._recipe.minutes:
            self._planned = state["planned"]
