"""The directory of a run: what it trains into, and in `training/` all it needs to go on."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from outrider.errors import LoadError, OptionError
from outrider.models.safetensors_source import read_json
from outrider.train.files import write_json, write_whole

INSIDE = "training"
SCHEMA = {"name": "outrider.train.run", "version": 1}


@dataclass(frozen=True, slots=True)
class Run:
    """A run's directory, which is its own."""

    out: Path

    @property
    def inside(self) -> Path:
        """Where all but the result lies."""
        return self.out / INSIDE

    @property
    def data(self) -> Path:
        """Where texts lie that were written for this run alone."""
        return self.inside / "data"

    @property
    def log(self) -> Path:
        """One JSON object a line: losses, learning rates, looks at the held-out texts."""
        return self.inside / "log.jsonl"

    @property
    def checkpoint(self) -> Path:
        """Everything from which the run goes on."""
        return self.inside / "checkpoint.pt"

    def save(self, state: Mapping[str, Any]) -> None:
        """Write a checkpoint whole; TrainingError where the disk is full, with the one before intact."""

        def write(path: Path) -> None:
            with open(path, "wb") as file:
                torch.save(dict(state), file)

        write_whole(self.checkpoint, write)

    def load(self) -> dict[str, Any] | None:
        """Return the checkpoint; None where there is none yet. LoadError for a damaged one."""
        if not self.checkpoint.exists():
            return None
        try:
            state = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
            raise LoadError(
                f"{str(self.checkpoint)!r} is damaged; remove it to begin this run anew"
            ) from error
        assert isinstance(state, dict)
        return state

    def lines(self) -> list[dict[str, Any]]:
        """Return what the log says so far."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines() if line]


def claim(out: Path, about: Mapping[str, Any], *, resume: bool) -> Run:
    """Return the run of a directory: a new one, or with `resume` the one that is there.

    `about` is what makes the run what it is, in values of JSON. OptionError where the directory holds
    anything else, where a run is there and is not to be resumed, and where it was begun with another `about`.
    """
    run, file = Run(out), out / INSIDE / "run.json"
    if not file.exists():
        if resume:
            raise OptionError(f"there is no run to resume in {str(out)!r}; leave --resume out")
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise OptionError(f"{str(out)!r} is there already and is no run; name a new directory with --out")
        run.inside.mkdir(parents=True, exist_ok=True)
        write_json(file, {"schema": SCHEMA, **about})
        return run
    if not resume:
        raise OptionError(
            f"{str(out)!r} holds a run already; continue it with --resume, or name a new directory with --out"
        )
    then = read_json(file)
    if then.get("schema") != SCHEMA:
        raise LoadError(f"{str(file)!r} is of another version; begin anew in a new directory")
    now = json.loads(json.dumps(about))
    for name, value in now.items():
        if then.get(name) != value:
            raise OptionError(
                f"this run was begun with {name} {then.get(name)!r}, not {value!r}; give the same, or begin "
                "anew in a new directory"
            )
    return run
