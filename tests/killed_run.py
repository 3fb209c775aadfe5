"""A tiny run that kills its own process: python killed_run.py KIND TARGET DATA OUT WHEN.

WHEN is "between" (after step 9, the last checkpoint being of step 6) or "saving" (while that one is written).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import outrider
from outrider.train.loop import train
from outrider.train.run import Run, claim
from outrider.train.task import Progress
from tiny_training import QUICK, make, texts_of


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(kind: str, target: str, data: str, out: str, when: str) -> None:
    torch.set_num_threads(1)
    llm = outrider.load(target, weights="fp32")
    texts = texts_of(llm, Path(data))
    save, write = Run.save, torch.save

    def sometimes(self: Run, state: Mapping[str, Any]) -> None:
        if state["step"] in (0, 3, 6):
            save(self, state)

    def halfway(state: Mapping[str, Any], file: Any) -> None:
        write(state, file)
        if state["step"] == 6:
            file.truncate(file.tell() // 2)
            die()

    def after(progress: Progress) -> None:
        if progress.step == 9:
            die()

    Run.save = sometimes  # type: ignore[method-assign]
    if when == "saving":
        torch.save = halfway
    run = claim(Path(out), {"kind": "tiny"}, resume=False)
    train(make(kind, llm, Path(target), texts), texts, replace(QUICK, save_seconds=1e-9), run, after)


if __name__ == "__main__":
    main(*sys.argv[1:])
