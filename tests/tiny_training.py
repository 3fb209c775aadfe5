"""Tiny runs of each kind of training, for tests of what all of them promise."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from outrider.heads.formats.spelling import Head
from outrider.llm import LLM
from outrider.models.checkpoint import open_checkpoint
from outrider.train.distill import Distill
from outrider.train.eagle3 import Eagle3Training
from outrider.train.generate import open_data
from outrider.train.head_files import export_head
from outrider.train.head_of import HeadShape, fresh_head, fresh_medusa
from outrider.train.head_training import Ahead
from outrider.train.medusa import MedusaTraining
from outrider.train.own_texts import OwnTexts
from outrider.train.readings import Readings
from outrider.train.recipe import Recipe
from outrider.train.student import Student, choose_layers
from outrider.train.task import Task
from outrider.train.teacher import Teacher
from outrider.train.texts import Texts, parted

KINDS = ("distill", "on-policy", "eagle3", "medusa")
QUICK = Recipe(batch=4, length=48, warmup=3, epochs=3, lr=2e-3, judge_every=5, save_seconds=1000)


def texts_of(llm: LLM, data: Path) -> Texts:
    return parted(open_data(data, llm.model), length=QUICK.length, held=3, seed=0)


def saved_as(spelling: str) -> Callable[[Head, Path], None]:
    def export(head: Head, directory: Path) -> None:
        export_head(head, directory, spelling, target="tiny", architecture="LlamaForCausalLM")

    return export


def make(kind: str, llm: LLM, target: Path, texts: Texts, kept: Readings | None = None) -> Task:
    checkpoint = open_checkpoint(str(target))
    plain = contextlib.nullcontext
    ends = llm.model.tokenizer.eos_ids
    if kind == "eagle3":
        head, embedding = fresh_head(checkpoint, HeadShape(200), texts.learned, ends, seed=0)
        captured = head.config.layers_of(checkpoint.config.layers)
        teacher = Teacher(llm.model, top=24, captured=captured, kept=kept)
        return Eagle3Training(
            head, teacher, Ahead(3), embedding, export=saved_as("specforge"), precision=plain
        )
    if kind == "medusa":
        heads, norm = fresh_medusa(checkpoint, 200, 3, texts.learned, ends)
        captured = (checkpoint.config.layers - 1,)
        teacher = Teacher(llm.model, top=24, captured=captured, kept=kept)
        eps = checkpoint.config.norm_eps
        return MedusaTraining(heads, teacher, 0.8, norm, eps, export=saved_as("medusa-vllm"), precision=plain)
    student = Student(checkpoint, choose_layers("3", checkpoint.config.layers))
    own = None
    if kind == "on-policy":
        own = OwnTexts(llm.model, texts.learned, share=0.5, count=3, every=4)
    teacher = Teacher(llm.model, top=24, kept=kept)
    return Distill(student, teacher, llm.model, own=own, precision=plain)
