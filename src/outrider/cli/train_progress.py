"""How far writing and training are: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

if TYPE_CHECKING:
    from outrider.train.generate import Written
    from outrider.train.task import Judgement
    from outrider.train.task import Progress as Trained
    from outrider.train.texts import Texts

LINE_SECONDS = 30.0
"""Between lines where there is no terminal."""


class Show:
    """Shows one thing after another on a console."""

    def __init__(self, notes: Console, bars: Progress | None) -> None:
        self._notes, self._bars = notes, bars
        self._tasks: dict[str, int] = {}
        self._last = time.monotonic()

    def writing(self, written: Written) -> None:
        """Show how many texts are written."""
        rate = written.tokens / max(written.seconds, 1e-9)
        said = f"{written.examples} of {written.wanted} texts  {rate:.0f} tokens/s"
        if written.begun_with < written.examples < written.wanted:
            each = written.seconds / (written.examples - written.begun_with)
            said += f"  {duration(each * (written.wanted - written.examples))} left"
        self._show("writing", said, written.examples, written.wanted)

    def texts(self, texts: Texts) -> None:
        """Say how many there are."""
        self._notes.print(f"{len(texts.learned)} texts to learn from, {len(texts.held)} held out")

    def reading(self, count: int, whole: int) -> None:
        """Show how many texts the target has read."""
        self._show("reading", f"{count} of {whole} texts", count, whole)

    def training(self, trained: Trained) -> None:
        """Show how a run does."""
        said = f"step {trained.step}" + ("" if trained.steps is None else f" of {trained.steps}")
        said += f"  loss {trained.loss:.3f}  lr {trained.lr:.1e}  {trained.tokens_per_second:.0f} tokens/s"
        if trained.judgement is not None:
            said += f"  {accepted(trained.judgement)}"
        if trained.seconds_left is not None:
            said += f"  {duration(trained.seconds_left)} left"
        self._show("training", said, trained.step, trained.steps)

    def _show(self, what: str, said: str, done: int, whole: int | None) -> None:
        if self._bars is None:
            if time.monotonic() - self._last >= LINE_SECONDS:
                self._last = time.monotonic()
                self._notes.print(f"{what}: {said}")
            return
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=whole)
        self._bars.update(self._tasks[what], completed=done, total=whole, description=f"{what}: {said}")  # type: ignore[arg-type]


@contextmanager
def showing(notes: Console) -> Iterator[Show]:
    """Return what shows progress on `notes` meanwhile."""
    if not notes.is_terminal:
        yield Show(notes, None)
        return
    with Progress(BarColumn(bar_width=20), TextColumn("{task.description}"), console=notes) as bars:
        yield Show(notes, bars)


def accepted(judgement: Judgement) -> str:
    """Return in words what held-out texts say: how often drafts are kept, by depth."""
    kept = " ".join(f"{share:.2f}" for share in judgement.kept)
    return f"kept {kept} (τ about {judgement.accepted_length:.2f})"


def duration(seconds: float) -> str:
    """Return seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
