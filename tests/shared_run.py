"""A tiny run that two processes share: torchrun … shared_run.py KIND TARGET DATA OUT.

Each takes two texts of every batch. The second is interrupted after step 4; then both go on to the end.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import torch

import outrider
from outrider.train.group import joined
from outrider.train.loop import train
from outrider.train.run import Run, claim
from outrider.train.task import Progress
from tiny_training import QUICK, make, texts_of


def main(kind: str, target: str, data: str, out: str) -> None:
    torch.set_num_threads(1)
    group = joined("cpu")
    assert group.size == 2
    llm = outrider.load(target, weights="fp32")
    texts = texts_of(llm, Path(data))
    recipe = replace(QUICK, batch=QUICK.batch // 2)

    def interrupt(progress: Progress) -> None:
        if progress.step == 4 and not group.leads:
            os.kill(os.getpid(), signal.SIGINT)

    for reason, resume, report in (("stopped", False, interrupt), ("done", True, lambda _: None)):
        group.write(lambda resume=resume: claim(Path(out), {"kind": "tiny"}, resume=resume))  # type: ignore[misc]
        task = make(kind, llm, Path(target), texts)
        found = train(task, texts, recipe, Run(Path(out)), report, group=group)
        assert found.reason == reason
        assert (found.judgement is not None) == group.leads


if __name__ == "__main__":
    main(*sys.argv[1:])
