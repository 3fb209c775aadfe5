"""Where a decoder's tensors come from, whatever file or object holds them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from outrider.errors import LoadError
from outrider.models.config import DecoderConfig
from outrider.models.gguf_file import GGUFFile, Raw
from outrider.models.names import EMBEDDING, HEAD, expected_shapes, from_gguf_name

# A buffer that old checkpoints save although the configuration already says what it holds.
_DERIVED = re.compile(r".*rotary_emb\.inv_freq")


@dataclass(frozen=True, slots=True)
class Blocks:
    """A matrix as its file holds it: `raw` bytes in the ggml type `kind`, row after row.

    `order [N]`, where there is one, names for each output of the model the row of the file that holds it.
    """

    raw: Raw
    kind: str
    order: Tensor | None


class TensorSource(Protocol):
    """Tensors by their Hugging Face names."""

    description: str
    """Where they come from, for messages."""

    def names(self) -> set[str]:
        """Return the names of all tensors."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor without reading it."""
        ...

    def get(self, name: str) -> Tensor:
        """Return a tensor in float32, contiguous, on the CPU; LoadError where it cannot be read."""
        ...

    def blocks(self, name: str) -> Blocks | None:
        """Return a matrix as it lies in a GGUF file; None where it comes from elsewhere."""
        ...

    def fingerprint(self) -> str | None:
        """Return what tells these files from all others; None where the tensors don't come from files."""
        ...


class StateDictSource:
    """The tensors of a model that is already in memory."""

    def __init__(self, tensors: Mapping[str, Tensor], description: str = "model in memory") -> None:
        self._tensors, self.description = tensors, description

    def names(self) -> set[str]:
        """Return the names of all tensors."""
        return set(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return tuple(self._tensors[name].shape)

    def get(self, name: str) -> Tensor:
        """Return a tensor in float32."""
        return self._tensors[name].detach().to("cpu", torch.float32).contiguous()

    def blocks(self, name: str) -> None:
        """Return None: tensors in memory are plain numbers."""

    def fingerprint(self) -> None:
        """Return None: tensors in memory come from no file."""


class GGUFSource:
    """The tensors of a GGUF file under Hugging Face names, dequantised when read.

    Converters store the query and key rows of the `llama` architecture in the order of interleaved rotary
    positions (pairs 2i, 2i+1); `heads` and `kv_heads` are given where that order must be undone to get the
    rotate-half order (pairs i, i + D/2).
    """

    def __init__(self, file: GGUFFile, *, heads: int | None = None, kv_heads: int | None = None) -> None:
        self._file, self.description = file, str(file.path)
        self._names = {from_gguf_name(name): name for name in file.tensors if name != "rope_freqs.weight"}
        self._heads = {"q_proj": heads, "k_proj": kv_heads}
        self._fingerprint = f"{file.fingerprint} heads {heads} {kv_heads}"

    def names(self) -> set[str]:
        """Return the names of all tensors."""
        return set(self._names)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor without reading it."""
        return self._file.tensors[self._names[name]].shape

    def get(self, name: str) -> Tensor:
        """Return a tensor in float32."""
        tensor = self._file.tensor(self._names[name])
        order = self._order(name)
        return tensor if order is None else tensor[order.long()]

    def blocks(self, name: str) -> Blocks:
        """Return a matrix as it lies in the file."""
        return Blocks(*self._file.raw(self._names[name]), self._order(name))

    def fingerprint(self) -> str:
        """Return what tells this file, read with these heads, from all others."""
        return self._fingerprint

    def _order(self, name: str) -> Tensor | None:
        """Return the row of the file for each row of a tensor, int32; None where they are the same."""
        parts = name.split(".")
        heads = self._heads.get(parts[-2]) if len(parts) > 1 else None
        if heads is None:
            return None
        rows = torch.arange(self.shape(name)[0], dtype=torch.int32)
        return rows.view(heads, -1, 2).transpose(1, 2).reshape(-1)


def check_complete(config: DecoderConfig, source: TensorSource) -> None:
    """Check that the source holds exactly the tensors of this decoder, in their shapes.

    LoadError names tensors that are missing, that nothing would read, or whose shape the configuration
    contradicts. Rotary buffers, and a second copy of tied embeddings, are let pass.
    """
    expected, found = expected_shapes(config), source.names()
    if missing := sorted(set(expected) - found):
        raise LoadError(
            f"{source.description} lacks {_some(missing)} that its configuration calls for; "
            "the download may be incomplete"
        )
    harmless = {name for name in found if _DERIVED.fullmatch(name)}
    if config.tied_embeddings:
        harmless.add(HEAD)
    if unknown := sorted(found - set(expected) - harmless):
        raise LoadError(
            f"{source.description} holds {_some(unknown)} that a {config.family} decoder does not use; "
            "running without them would give wrong results, so the model is not loaded"
        )
    for name, shape in expected.items():
        if source.shape(name) != shape:
            raise LoadError(
                f"{source.description}: tensor {name!r} has the shape {list(source.shape(name))}, "
                f"its configuration calls for {list(shape)}"
            )


def head_is_tied(source: TensorSource) -> bool:
    """Tell whether the output head is the embedding: absent, or a copy of it."""
    if HEAD not in source.names():
        return True
    return source.shape(HEAD) == source.shape(EMBEDDING) and torch.equal(
        source.get(HEAD), source.get(EMBEDDING)
    )


def _some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"the tensor{'s' if len(names) > 1 else ''} {shown}{rest}"
