"""What a spelling is: how one program writes a head down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outrider.heads.eagle import EagleHead
from outrider.heads.eagle3 import Eagle3Head
from outrider.heads.medusa import MedusaHeads

Head = Eagle3Head | EagleHead | MedusaHeads


@dataclass(frozen=True, slots=True)
class HeadFiles:
    """A head's directory as it was read.

    `config` is what config.json holds, `weights` the name of the file with the tensors. Readers add to
    `notes` what a user should know. `dtype` is the type that weights are to have, None for that of the file.
    """

    directory: Path
    config: dict[str, Any]
    weights: str
    tensors: dict[str, Tensor]
    dtype: torch.dtype | None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ForTarget:
    """The target a head was trained for, as files name it: a name or path, and its architecture."""

    name: str = ""
    architecture: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """What is to stand in a head's directory: config.json, and tensors in the file `weights`."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    weights: str = "model.safetensors"


@dataclass(frozen=True, slots=True)
class Spelling:
    """How one program writes heads of one kind down.

    `recognises` tells whether a directory is of this spelling, `load` reads one that is, and `write` says
    what a directory is to hold. `load` and `write` raise HeadError for what cannot be read or said exactly.
    """

    name: str
    kind: str
    recognises: Callable[[HeadFiles], bool]
    load: Callable[[HeadFiles], Head]
    write: Callable[[Any, ForTarget], Written]
