"""Loads a model while someone waits, and passes on what the loader noticed."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.status import Status

from outrider.errors import OptionError
from outrider.models.base import LoadedModel

if TYPE_CHECKING:
    from outrider.llm import LLM


def load_llm(model: str, notes: Console, **options: Any) -> LLM:
    """Do what `outrider.load` does, with a word about it on `notes`."""
    import outrider

    with notes.status(f"loading {model}") as status, _told(status, f"loading {model}"):
        llm: LLM = outrider.load(model, **options)
    announce(llm.model, notes)
    return llm


@contextmanager
def _told(status: Status, what: str) -> Iterator[None]:
    """Show what the package says about its progress meanwhile."""
    handler, logger = logging.Handler(), logging.getLogger("outrider")
    handler.emit = lambda record: status.update(f"{what}: {record.getMessage()}")  # type: ignore[method-assign]
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def load_passes(
    model: str,
    notes: Console,
    *,
    passes: Sequence[str],
    weights: Sequence[str],
    activations: Sequence[str],
    device: str,
    threads: int | None,
) -> list[LoadedModel]:
    """Load a model once for each implementation of the pass, format of the weights and kind of activations.

    UnknownNameError before anything is loaded; OptionError where none is named or a kernel comes twice.
    """
    import torch

    from outrider.models.decoder import check_activations, check_weights
    from outrider.models.load import load_model
    from outrider.models.passes import check_pass

    if not passes or not weights or not activations:
        raise OptionError("--pass, --weights and --activations each need a name; leave them out for auto")
    for name in passes:
        check_pass(name)
    for name in weights:
        check_weights(name)
    for name in activations:
        check_activations(name)
    if threads is not None:
        torch.set_num_threads(threads)
    found: dict[str, LoadedModel] = {}
    for name, form, integers in itertools.product(passes, weights, activations):
        with notes.status(f"loading {model}"):
            loaded = load_model(model, weights=form, activations=integers, device=device, implementation=name)
        announce(loaded, notes)
        kernel = loaded.details["kernel"]
        if kernel in found:
            asked = f"--pass {name} --weights {form}" + f" --activations {integers}" * (len(activations) > 1)
            raise OptionError(f"{asked} is {kernel!r} once more; leave one out")
        found[kernel] = loaded
    return list(found.values())


def announce(model: LoadedModel, notes: Console) -> None:
    """Print what the loader noticed about a model: a slower path, weights that did not fit."""
    for notice in model.details.get("notices", ()):
        notes.print(f"note: {notice}")
