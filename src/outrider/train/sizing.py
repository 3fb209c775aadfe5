"""Short runs of heads of several sizes, from which is worked out which size pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from outrider.errors import OptionError, TrainingError
from outrider.models.checkpoint import open_checkpoint
from outrider.train.head_of import HeadShape
from outrider.train.run import INSIDE, Run, claim
from outrider.train.scaling import Point
from outrider.train.start import Job, eagle3_task
from outrider.train.task import Judgement
from outrider.train.texts import learned_tokens

PARTS = (0.25, 0.5, 1.0)
"""Of what a size's longest run is given, what each of its runs is given.

Each is planned by itself, because a run that is looked at halfway has not come down with its learning rate.
"""


@dataclass(frozen=True, slots=True)
class Size:
    """A head that is tried."""

    name: str
    shape: HeadShape
    lr: float


@dataclass(frozen=True, slots=True)
class ShortRun:
    """What one run came to."""

    size: Size
    directory: Path
    point: Point
    seconds: float
    judgement: Judgement


def short_runs(job: Job, sizes: Sequence[Size], *, depth: int) -> Iterator[ShortRun | None]:
    """Run each size three times, and yield what came of each run; None, and nothing more, when asked to stop.

    `job` says what all runs together are given (`minutes`) or the longest of each size (`epochs`). The target
    reads the texts once, before. OptionError for sizes that are one and the same for this target.
    """
    config = open_checkpoint(job.model).config
    shapes = [(min(size.shape.draft_vocab, config.vocab_size), size.shape.inner) for size in sizes]
    plain = [(vocab, inner or config.intermediate_size) for vocab, inner in shapes]
    for at, one in enumerate(plain):
        if one in plain[:at]:
            names = f"{sizes[plain.index(one)].name} and {sizes[at].name}"
            raise OptionError(f"--sizes: {names} are the same head for this target; leave one out")
    about = {"kind": "scale", "sizes": [size.name for size in sizes], "depth": depth}
    claim(job.out, about, resume=job.resume)
    job = job.with_texts(job.out / INSIDE / "data")
    reader = job.teacher(sizes[0].shape.layers_of(config.layers))
    reader.kept = job.readings(Run(job.out))
    job = replace(job, reader=reader)
    for size in sizes:
        for part in PARTS:
            found = _run(job, size, part, depth, len(sizes))
            yield found
            if found is None:
                return


def _run(job: Job, size: Size, part: float, depth: int, sizes: int) -> ShortRun | None:
    out = job.out / f"{size.name}-{round(100 * part)}"
    recipe, resume = job.recipe, (out / INSIDE / "run.json").exists()
    minutes = None if recipe.minutes is None else recipe.minutes * part / sum(PARTS) / sizes
    recipe = replace(recipe, lr=size.lr, minutes=minutes, epochs=recipe.epochs * part)
    own = replace(job, out=out, recipe=recipe, resume=resume)
    task, texts, run = eagle3_task(own, size.shape, depth=depth)
    assert own.reader is not None
    for count, _ in enumerate(own.reader.read_ahead([*texts.learned, *texts.held]), start=1):
        own.watch.reading(count, len(texts.learned) + len(texts.held))
    outcome = own.run(task, texts, run)
    if outcome.reason == "stopped":
        return None
    tokens = learned_tokens(texts.learned, recipe.batch, seed=recipe.seed, steps=outcome.step)
    if not tokens or outcome.judgement is None:
        raise TrainingError(f"a run of {size.name} had no time for a step; give more --minutes")
    parameters = sum(p.numel() for p in task.module.parameters() if p.requires_grad)
    point = Point(parameters, tokens, task.reach(texts.held), outcome.judgement.kept)
    return ShortRun(size, out, point, outcome.seconds, outcome.judgement)
