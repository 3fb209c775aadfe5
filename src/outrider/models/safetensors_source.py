"""The tensors of a Hugging Face checkpoint: one safetensors file, or several with an index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outrider.errors import LoadError, UnsupportedModelError
from outrider.models.fingerprint import fingerprint

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class SafetensorsSource:
    """The tensors of a checkpoint directory, each read when it is asked for.

    Every shard is opened, and so checked against its header, when the source is built: LoadError names the
    shard that is missing, damaged or cut short.
    """

    def __init__(self, directory: Path) -> None:
        self.description = str(directory)
        self._open: dict[str, Any] = {}
        self._where: dict[str, Any] = {}
        self._fingerprints: list[str] = []
        index = directory / INDEX
        if index.exists():
            placed = _weight_map(index)
            for file in sorted(set(placed.values())):
                self._open_shard(directory / file)
            for name, file in placed.items():
                if name not in self._open[file].keys():  # noqa: SIM118 (not a dict, has no __contains__)
                    raise LoadError(f"{directory / file} lacks the tensor {name!r} that {INDEX} places there")
        elif (directory / SINGLE).exists():
            self._open_shard(directory / SINGLE)
        elif sorted(directory.glob("*.bin")):
            raise UnsupportedModelError(
                f"{directory} holds pickled weights (.bin), which can run code when read and are not loaded; "
                "convert them to safetensors"
            )
        else:
            raise LoadError(f"{directory} has no {SINGLE} and no {INDEX}; is it a complete model directory?")

    def names(self) -> set[str]:
        """Return the names of all tensors."""
        return set(self._where)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor without reading it."""
        return tuple(self._where[name].get_slice(name).get_shape())

    def raw(self, name: str) -> Tensor:
        """Return a tensor in the type it has in the file."""
        tensor: Tensor = self._where[name].get_tensor(name)
        return tensor

    def get(self, name: str) -> Tensor:
        """Return a tensor in float32; UnsupportedModelError where it is quantised."""
        tensor = self.raw(name)
        if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            raise UnsupportedModelError(
                f"{self.description}: tensor {name!r} has the type {tensor.dtype}; "
                "only plain float weights can be read"
            )
        return tensor.to(torch.float32).contiguous()

    def blocks(self, name: str) -> None:
        """Return None: safetensors hold plain numbers."""

    def fingerprint(self) -> str:
        """Return what tells these shards from all other files."""
        return "; ".join(self._fingerprints)

    def _open_shard(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        if not path.exists():
            raise LoadError(f"{path} is missing although {INDEX} lists it; download the model again")
        self._fingerprints.append(fingerprint(path, path.stat()))
        try:
            shard: Any = safe_open(path, framework="pt")
        except (SafetensorError, OSError) as error:
            raise LoadError(f"{path} is damaged or cut short ({error}); download it again") from error
        self._open[path.name] = shard
        self._where.update(dict.fromkeys(shard.keys(), shard))


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; LoadError where there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LoadError(f"{path} is missing; a model directory needs it") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise LoadError(f"{path} is not valid JSON ({error}); download it again") from error
    if not isinstance(value, dict):
        raise LoadError(f"{path} must hold a JSON object, not {type(value).__name__}")
    return value


def _weight_map(index: Path) -> dict[str, str]:
    placed = read_json(index).get("weight_map")
    if not isinstance(placed, dict) or not all(isinstance(file, str) for file in placed.values()):
        raise LoadError(f"{index} has no weight_map; download it again")
    for file in placed.values():
        if Path(file).name != file:
            raise LoadError(f"{index} places tensors outside its own directory: {file!r}")
    return placed
