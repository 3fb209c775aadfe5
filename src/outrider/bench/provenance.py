"""Where figures come from: machine, versions, command. Without it a figure is a rumour."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from outrider.models.base import LoadedModel
from outrider.planner.machine import processor


def provenance(model: LoadedModel, program: Sequence[str] = ("outrider",)) -> dict[str, Any]:
    """Return what produced a result: command, date, versions, machine, and the model with its details.

    `program` is what stands before the arguments in the command.
    """
    import torch

    return {
        "command": shlex.join([*program, *map(_shortened, sys.argv[1:])]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "outrider": {"version": _version("outrider"), "commit": _commit()},
        "versions": {
            "python": platform.python_version(),
            "torch": _version("torch"),
            "numpy": _version("numpy"),
            "transformers": _version("transformers"),
            "cyllama": _version("cyllama"),
        },
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "memory_bytes": _memory_bytes(),
            "threads": torch.get_num_threads(),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        },
        "model": {
            "name": _shortened(model.name),
            **{key: _shortened(value) for key, value in model.details.items()},
        },
    }


def _shortened(value: Any) -> Any:
    """Return a path as its last part: where it lay on one machine says nothing on another."""
    is_path = isinstance(value, Path) or (isinstance(value, str) and os.path.isabs(value))
    return Path(value).name if is_path else value


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Return the commit of the checkout the package runs from, with + where files differ from it."""
    here = Path(__file__).resolve().parents[1]
    if not (here.parents[1] / ".git").exists():
        return None
    try:
        commit = _git(here, "rev-parse", "HEAD")
        return commit + ("+" if _git(here, "status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
