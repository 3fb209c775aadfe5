"""Runs from their options: data is found or written, the parts are put together, the loop is run."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from outrider.errors import OptionError, UnknownNameError
from outrider.heads.formats.spelling import Head
from outrider.llm import LLM
from outrider.models.checkpoint import Checkpoint, open_checkpoint
from outrider.train.candidate import Writing, describe
from outrider.train.distill import Distill
from outrider.train.divergence import LOSSES
from outrider.train.eagle3 import Eagle3Training
from outrider.train.generate import Written, open_data, write_data
from outrider.train.group import ALONE, Group
from outrider.train.head_files import check_spelling, check_writable, export_head
from outrider.train.head_of import HeadShape, fresh_head, fresh_medusa, settle
from outrider.train.head_training import Ahead
from outrider.train.loop import train
from outrider.train.medusa import MedusaTraining
from outrider.train.own_texts import OwnTexts
from outrider.train.prompts import PromptFile, read_prompts
from outrider.train.readings import Readings
from outrider.train.recipe import Recipe
from outrider.train.run import Run, claim
from outrider.train.store import Store, is_store
from outrider.train.student import Student, choose_layers
from outrider.train.task import Outcome, Progress, Task
from outrider.train.teacher import Teacher
from outrider.train.texts import Texts, parted

SETTLING = 4
"""Texts by which a fresh head is scaled."""


@dataclass(frozen=True, slots=True)
class Data:
    """Where texts come from: stores, one file of prompts, or (nothing given) prompts of the target's own."""

    given: tuple[Path, ...] = ()
    count: int | None = None
    """Texts to write; of stores, the first so many of all their texts are taken."""
    writing: Writing = field(default_factory=Writing)
    running: int = 16
    """Texts written at once."""

    @property
    def about(self) -> dict[str, Any]:
        """What decides the texts."""
        if self.stores:
            return {"stores": [Store(one).header for one in self.stores], "count": self.count}
        prompts = self.prompts
        digest = None if prompts is None else prompts.digest
        return {"prompts": digest, "count": self.count, "writing": describe(self.writing)}

    @property
    def stores(self) -> tuple[Path, ...]:
        """The stores, where stores are given; OptionError for several paths that are not all stores."""
        found = tuple(path for path in self.given if is_store(path))
        if len(self.given) > 1 and found != self.given:
            odd = next(path for path in self.given if path not in found)
            raise OptionError(
                f"{str(odd)!r} holds no texts of `outrider train data`; of several --data each must"
            )
        return found

    @property
    def prompts(self) -> PromptFile | None:
        """The file of prompts, where one is given."""
        return read_prompts(self.given[0]) if self.given and not self.stores else None


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told how far things are."""

    writing: Callable[[Written], None] = lambda _: None
    training: Callable[[Progress], None] = lambda _: None
    texts: Callable[[Texts], None] = lambda _: None
    reading: Callable[[int, int], None] = lambda _, __: None
    """Texts read ahead by the target, and of how many."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the target reads, and how much of it is kept."""

    top: int = 64
    """Likeliest tokens of each law."""
    most_bytes: int = 2 << 30
    """Of readings on the disk; what does not fit is read again in every epoch."""


@dataclass(frozen=True, slots=True)
class Job:
    """What both kinds of training are given: the loaded target and its name, where to, from what, and how."""

    llm: LLM
    model: str
    out: Path
    data: Data
    recipe: Recipe
    reading: Reading = Reading()
    resume: bool = False
    watch: Watch = Watch()
    group: Group = ALONE
    reader: Teacher | None = None
    """Who reads for several runs of the same texts and layers."""

    def claim(self, kind: str, shape: dict[str, Any]) -> Run:
        """Take the directory, or the run in it; OptionError for texts that several processes would write."""
        if self.group.size > 1 and not self.data.stores:
            raise OptionError(
                "several processes learn from texts that are there already; write them first with `outrider "
                "train data`, in one process, and give its directory with --data"
            )
        about = {
            "kind": kind,
            "target": {key: self.llm.model.details.get(key) for key in ("source", "weights")},
            "shape": shape,
            "data": self.data.about,
            "recipe": {**self.recipe.about, "batch": self.recipe.batch * self.group.size},
            "top": self.reading.top,
        }
        self.group.write(lambda: claim(self.out, about, resume=self.resume))
        return Run(self.out)

    def texts(self, run: Run) -> Texts:
        """Return the texts to learn from; those that nobody has written yet are written now."""
        recipe, data = self.recipe, self.with_texts(run.data).data
        examples = [text for one in data.stores for text in open_data(one, self.llm.model)][: data.count]
        texts = parted(examples, length=recipe.length, held=recipe.held, seed=recipe.seed)
        self.watch.texts(texts)
        return texts

    def with_texts(self, directory: Path) -> Job:
        """Return the job with all texts written, those that were not there in a directory."""
        data = self.data
        if data.stores:
            return self
        write_data(
            self.llm,
            directory,
            data.writing,
            prompts=data.prompts,
            count=data.count,
            running=data.running,
            report=self.watch.writing,
        )
        return replace(self, data=Data((directory,)))

    def teacher(self, captured: tuple[int, ...] = ()) -> Teacher:
        """Return the target as a reader of texts; a new one keeps nothing yet."""
        if self.reader is not None:
            return self.reader
        return Teacher(self.llm.model, top=self.reading.top, captured=captured)

    def readings(self, run: Run) -> Readings:
        """Return what is kept of the target's readings beside a run, by each process its own."""
        path = run.inside / f"readings-{self.group.rank}.bin"
        return (
            self.reader.kept if self.reader and self.reader.kept else Readings(path, self.reading.most_bytes)
        )

    def run(self, task: Task, texts: Texts, run: Run) -> Outcome:
        """Run the loop."""
        watch = self.watch
        return train(task, texts, self.recipe, run, watch.training, watch.reading, self.group)


def distill(job: Job, *, layers: str, loss: str = "fkl", on_policy: float = 0.0) -> Outcome:
    """Train a small model made of some of the target's layers; see `Distill` and `choose_layers`.

    `on_policy`: the share of texts that the small model writes itself. UsageError before anything is run.
    """
    if loss not in LOSSES:
        raise UnknownNameError("loss", loss, LOSSES)
    if not 0 <= on_policy <= 1:
        raise OptionError(f"on_policy={on_policy} is not allowed; give a share from 0 to 1")
    checkpoint = open_checkpoint(job.model)
    chosen = choose_layers(layers, checkpoint.config.layers)
    teacher = job.teacher()
    student = Student(checkpoint, chosen).to(teacher.target.device)
    run = job.claim("distill", {"layers": list(chosen), "loss": loss, "on_policy": on_policy})
    teacher.kept = job.readings(run)
    texts = job.texts(run)
    own = None
    if on_policy:
        own = OwnTexts(job.llm.model, texts.learned, on_policy, seed=job.recipe.seed)
    precision = precision_of(job.recipe, teacher.target.device)
    return job.run(
        Distill(student, teacher, job.llm.model, loss=loss, own=own, precision=precision), texts, run
    )


def eagle3(
    job: Job, shape: HeadShape, *, depth: int, spelling: str = "specforge", decay: float = 0.8
) -> Outcome:
    """Train an EAGLE-3 head, `depth` steps deep; see `Eagle3Training`.

    `spelling`: in whose files it is written. UsageError before anything is run.
    """
    return job.run(*eagle3_task(job, shape, depth=depth, spelling=spelling, decay=decay))


def eagle3_task(
    job: Job, shape: HeadShape, *, depth: int, spelling: str = "specforge", decay: float = 0.8
) -> tuple[Eagle3Training, Texts, Run]:
    """Return what `eagle3` runs."""
    check_spelling(spelling, "eagle3")
    checkpoint = open_checkpoint(job.model)
    layers = shape.layers_of(checkpoint.config.layers)
    teacher = job.teacher(layers)
    said = {"draft_vocab": shape.draft_vocab, "inner": shape.inner, "feature_layers": list(layers)}
    run = job.claim("eagle3", {**said, "depth": depth, "decay": decay, "spelling": spelling})
    teacher.kept = job.readings(run)
    texts = job.texts(run)
    ends = job.llm.model.tokenizer.eos_ids
    head, embedding = fresh_head(checkpoint, shape, texts.learned, ends, seed=job.recipe.seed)
    device = teacher.target.device

    save = _saver(job, checkpoint, spelling, head)
    head, embedding = head.to(device), embedding.to(device)
    settle(head, teacher, embedding, texts.learned[:SETTLING])
    task = Eagle3Training(
        head,
        teacher,
        Ahead(depth, decay),
        embedding,
        export=save,
        precision=precision_of(job.recipe, device),
    )
    return task, texts, run


def medusa(
    job: Job, *, heads: int, draft_vocab: int | None = None, spelling: str = "medusa-vllm", decay: float = 0.8
) -> Outcome:
    """Train Medusa heads for the tokens 2 … `heads` + 1 ahead; see `MedusaTraining`.

    UsageError before anything is run.
    """
    check_spelling(spelling, "medusa")
    checkpoint = open_checkpoint(job.model)
    config = checkpoint.config
    teacher = job.teacher((config.layers - 1,))
    run = job.claim(
        "medusa", {"heads": heads, "draft_vocab": draft_vocab, "decay": decay, "spelling": spelling}
    )
    teacher.kept = job.readings(run)
    texts = job.texts(run)
    ends = job.llm.model.tokenizer.eos_ids
    made, norm = fresh_medusa(checkpoint, draft_vocab, heads, texts.learned, ends)
    device = teacher.target.device

    save = _saver(job, checkpoint, spelling, made)
    precision = precision_of(job.recipe, device)
    task = MedusaTraining(
        made.to(device),
        teacher,
        decay,
        norm.to(device),
        config.norm_eps,
        export=save,
        precision=precision,
    )
    return job.run(task, texts, run)


def precision_of(recipe: Recipe, device: torch.device) -> Callable[[], AbstractContextManager[Any]]:
    """Return what forward passes run in."""
    if recipe.precision == "fp32":
        return contextlib.nullcontext
    return lambda: _half(device)


@contextlib.contextmanager
def _half(device: torch.device) -> Iterator[None]:
    """Run in bf16; torch says once that its fused norm does not take weights of another type, and goes on."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Mismatch dtype between input and weight")
        with torch.autocast(device.type, torch.bfloat16):
            yield


def _saver(job: Job, checkpoint: Checkpoint, spelling: str, head: Head) -> Callable[[Head, Path], None]:
    """Return what writes a head; HeadError now where one of this shape cannot be written so."""
    named = checkpoint.values.get("architectures") or [""]
    said = {"target": job.model, "architecture": str(named[0])}
    check_writable(head, spelling, **said)
    return lambda trained, directory: export_head(trained, directory, spelling, **said)
