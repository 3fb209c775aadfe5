"""A small model made of some of a target's layers, as transformers trains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from outrider.errors import CapabilityError, OptionError
from outrider.models.base import Tokenizer
from outrider.models.checkpoint import Checkpoint, pruned, write_checkpoint
from outrider.models.config import DecoderConfig
from outrider.train.files import write_whole


def choose_layers(written: str, count: int) -> tuple[int, ...]:
    """Return the layers that a text names: "0,1,28,29", or a number N for the first and the last N/2.

    The first layers are the more where N is odd. OptionError for layers that a target of `count` has not.
    """
    try:
        numbers = [int(part) for part in written.split(",")]
    except ValueError:
        raise OptionError(f"--layers {written!r}: write layers as 0,1,28,29, or how many") from None
    if len(numbers) == 1 and "," not in written:
        (wanted,) = numbers
        if not 1 <= wanted <= count:
            raise OptionError(f"--layers {wanted}: the target has {count} layers; take 1 to {count} of them")
        first = (wanted + 1) // 2
        numbers = [*range(first), *range(count - wanted + first, count)]
    bad = next((number for number in numbers if not 0 <= number < count), None)
    if bad is not None:
        raise OptionError(f"--layers names layer {bad}, but the target's are 0 to {count - 1}")
    if sorted(set(numbers)) != numbers:
        raise OptionError(f"--layers {written!r}: name each layer once, in rising order")
    return tuple(numbers)


class Student(nn.Module):
    """Chosen layers of a target between its embedding and its head, all of them to be trained, in fp32.

    CapabilityError without transformers, whose model of the family it is.
    """

    def __init__(self, checkpoint: Checkpoint, layers: Sequence[int]) -> None:
        super().__init__()
        if find_spec("transformers") is None:
            raise CapabilityError(
                'a small model is trained with transformers; run: pip install "transformers>=5.0"'
            )
        from transformers import AutoConfig, AutoModelForCausalLM

        self._checkpoint = checkpoint
        windows = checkpoint.config.windows
        self.config: DecoderConfig = replace(
            checkpoint.config,
            layers=len(layers),
            windows=tuple(windows[layer] for layer in layers) if windows else (),
        )
        self.values, tensors = pruned(checkpoint, layers)
        plain = {key: value for key, value in self.values.items() if key not in ("dtype", "torch_dtype")}
        config = AutoConfig.for_model(**plain)
        self.model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        missing, unexpected = self.model.load_state_dict(tensors, strict=False)
        tied = {"lm_head.weight"} if checkpoint.config.tied_embeddings else set()
        assert set(missing) <= tied, "every weight comes from the target"
        assert not unexpected
        self.model.tie_weights()

    @property
    def device(self) -> torch.device:
        """Where its weights lie."""
        return next(self.parameters()).device

    def states(self, tokens: Tensor) -> Tensor:
        """Return what the head is given, `[B, T]` tokens padded on the right to `[B, T, D]`."""
        found: Tensor = self.model.model(input_ids=tokens, use_cache=False).last_hidden_state
        return found

    def logits(self, states: Tensor) -> Tensor:
        """Return the logits for such states, `[..., D]` to `[..., V]`."""
        found: Tensor = self.model.lm_head(states)
        return found

    def tensors(self) -> dict[str, Tensor]:
        """Return its weights by their names in a checkpoint."""
        found: dict[str, Any] = self.model.state_dict()
        if self._checkpoint.config.tied_embeddings:
            found.pop("lm_head.weight", None)
        return {name: tensor.detach() for name, tensor in found.items()}

    def write(self, directory: Path, tokenizer: Tokenizer) -> None:
        """Write it as a Hugging Face directory."""
        write_checkpoint(directory, self.values, self.tensors(), self._checkpoint, tokenizer, write_whole)
