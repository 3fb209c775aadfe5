"""What passes of a loaded target cost, and a drafter's steps beside them: measured and kept on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from outrider.config import cache_directory
from outrider.drafters import parse_drafter
from outrider.loop.draft.base import Drafter
from outrider.loop.draft.level import Timed
from outrider.models.base import LoadedModel
from outrider.planner.machine import processor
from outrider.planner.measured import MeasuredLatency
from outrider.planner.steps import measured_steps
from outrider.shipped import head_directory


def measured_latency(model: LoadedModel) -> MeasuredLatency:
    """Return the model's latency curve, to be measured when a drafter first asks for it."""
    return MeasuredLatency(model.target, subject_of(model), cache_directory("latency"))


def subject_of(model: LoadedModel) -> dict[str, str]:
    """Return what the time of a model's passes depends on."""
    import torch

    details = ("architecture", "parameters", "weights", "activations", "kernel", "device")
    subject = {name: str(model.details.get(name)) for name in details}
    return subject | {
        "processor": processor(),
        "threads": str(torch.get_num_threads()),
        "model": model.name,
    }


def fingerprint(spec: str, options: Mapping[str, Any] | None, numbers: Mapping[str, str]) -> str:
    """Return what tells a drafter from others: its name and options, and its files."""
    found: list[object] = [spec, sorted((options or {}).items()), sorted(numbers.items())]
    named = parse_drafter(spec).model
    path = None if named is None else head_directory(named)
    if path is not None and path.exists():
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        found += [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return json.dumps(found, default=str)


def price(drafter: Drafter, model: LoadedModel, mark: str) -> None:
    """Tell a drafter, or each part of one, what its steps cost; measured where that is not known yet.

    `mark`: its `fingerprint`. Those that run no passes of their own have nothing to be told.
    """
    parts: list[Timed] = [
        part for part in (drafter, *getattr(drafter, "parts", ())) if hasattr(part, "probe") and part.cost > 0
    ]
    for part in parts:
        key = f"steps {part.name} {mark}"
        if key not in model.prepared:
            subject = {**subject_of(model), "drafter": part.name, "mark": mark}
            model.prepared[key] = measured_steps(
                model.target, part.probe(), subject, cache_directory("latency")
            )
        shares = model.prepared[key]
        if shares is not None:
            part.price(shares.at)
