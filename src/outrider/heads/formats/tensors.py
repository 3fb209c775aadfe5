"""Puts a file's tensors into a head, and a head's into a file: every one of them, and in its very shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from outrider.errors import HeadError, UnsupportedModelError
from outrider.heads.formats.spelling import HeadFiles

Module = TypeVar("Module", bound=nn.Module)

# A buffer that old files hold although the configuration already says what is in it.
_DERIVED = re.compile(r".*rotary_emb\.inv_freq")
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def without_prefix(files: HeadFiles, prefix: str) -> None:
    """Take a prefix off the names that have it; some programs put one before the parts of a head."""
    prefixed = [name for name in files.tensors if name.startswith(prefix)]
    for name in prefixed:
        short = name.removeprefix(prefix)
        if short in files.tensors:
            raise HeadError(f"{files.directory} holds both {name!r} and {short!r}; which one is meant?")
        files.tensors[short] = files.tensors.pop(name)
    if prefixed:
        files.notes.append(f"tensors are named with {prefix!r} in front, which was taken off")


def filled(files: HeadFiles, make: Callable[[], Module], names: Mapping[str, str]) -> Module:
    """Return the head that `make` makes with the weights of the file.

    `names` maps every tensor that the file must hold to the head's own name for it. HeadError says which are
    missing, unknown or of another shape than the configuration calls for.
    """
    try:
        with torch.device("meta"):  # no memory, and no random numbers, for what is read anyway
            head = make()
    except RuntimeError as error:
        raise HeadError(f"{files.directory / 'config.json'} names impossible sizes ({error})") from error
    own = head.state_dict()
    found = {name: tensor for name, tensor in files.tensors.items() if not _DERIVED.fullmatch(name)}
    if missing := [name for name in names if name not in found]:
        raise HeadError(
            f"{files.directory / files.weights} lacks {some(missing)} that its config.json calls for; "
            f"it holds {some(sorted(found))}"
        )
    if unknown := sorted(found.keys() - names.keys()):
        raise HeadError(
            f"{files.directory / files.weights} holds {some(unknown)} that a head of this configuration does "
            f"not use; expected were {some(list(names), 30)}. Leaving tensors out would change what it drafts"
        )
    where = files.directory / files.weights
    for name, target in names.items():
        if found[name].shape != own[target].shape:
            raise HeadError(
                f"{where}: tensor {name!r} has the shape {list(found[name].shape)}, "
                f"its config.json calls for {list(own[target].shape)}"
            )
        if found[name].dtype not in _FLOATS:
            raise UnsupportedModelError(
                f"{where}: tensor {name!r} has the type {found[name].dtype}; "
                "only plain float weights can be read"
            )
    dtype = files.dtype or widest(found)
    weights = {target: found[name].to(dtype).contiguous() for name, target in names.items()}
    rest = {name: tensor for name, tensor in own.items() if not tensor.is_floating_point()}
    head.load_state_dict({**rest, **weights}, assign=True)
    return head.eval()


def widest(tensors: Mapping[str, Tensor]) -> torch.dtype:
    """Return the type that holds the values of all of a file's weights."""
    dtype = torch.bfloat16 if not tensors else next(iter(tensors.values())).dtype
    for tensor in tensors.values():
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def spelled(head: nn.Module, names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return a head's weights under the names of a file."""
    own = head.state_dict()
    weights = {name: own[target] for name, target in names.items()}
    left = {name for name, tensor in own.items() if tensor.is_floating_point()} - set(names.values())
    assert not left, f"{left} would not be saved"
    return weights


def some(names: list[str], most: int = 3) -> str:
    """Return the first few of a list of tensors, for a message."""
    if not names:
        return "no tensor"
    shown = ", ".join(map(repr, names[:most]))
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return f"the tensor{'s' if len(names) > 1 else ''} {shown}{rest}"
