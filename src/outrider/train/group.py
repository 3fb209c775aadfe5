"""The processes that train together: one alone, or several that accelerate or torchrun has launched.

Each learns from its own texts of every batch, and their gradients are averaged. What is decided by a clock or
a signal, and what is written, is the first one's business.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from torch import nn

from outrider.errors import CapabilityError, OptionError, OutriderError

Item = TypeVar("Item")
PATIENCE = timedelta(hours=2)
"""How long the processes wait for one another."""
LEFT_OUT = {
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": ("1", "raise --batch"),
    "ACCELERATE_USE_FSDP": ("false", "every process holds all of what is trained"),
    "ACCELERATE_USE_DEEPSPEED": ("false", "every process holds all of what is trained"),
    "ACCELERATE_DYNAMO_BACKEND": ("no", "nothing is compiled"),
}
"""Settings of accelerate that would be ignored, as the environment tells them; what they must be, and why."""


class Group:
    """One process alone: it agrees with itself."""

    rank = 0
    size = 1

    @property
    def leads(self) -> bool:
        """Whether this is the first process."""
        return self.rank == 0

    def share(self, batch: Sequence[Item]) -> Sequence[Item]:
        """Return this process's part of a batch; all parts together are the batch."""
        return batch[self.rank :: self.size] if self.size > 1 else batch

    def place(self, device: str) -> str:
        """Return where this process runs; OptionError for a device that the processes cannot share."""
        return device

    def average(self, parameters: Sequence[nn.Parameter], weight: float) -> None:
        """Put the sum of all processes' gradients, each times its weight, in place of the gradients."""

    def sum(self, value: float) -> float:
        """Return the sum of what the processes say."""
        return value

    def first(self, value: float) -> float:
        """Return what the first process says."""
        return value

    def write(self, act: Callable[[], object]) -> None:
        """Have the first process do what writes, while the others wait; its OutriderError is everybody's."""
        act()

    def begin_alike(self, module: nn.Module, about: str) -> None:
        """Give a module the first process's weights; OptionError where `about` is not the same for all."""


ALONE = Group()


class Launched(Group):
    """Several processes. See `joined`."""

    def __init__(self, state: Any) -> None:
        from accelerate.utils import broadcast, broadcast_object_list, reduce

        self.rank, self.size = int(state.process_index), int(state.num_processes)
        self._device: torch.device = state.device
        self._reduce, self._broadcast, self._tell = reduce, broadcast, broadcast_object_list

    def place(self, device: str) -> str:
        """Return this process's own device; one that is named would have to serve all of them."""
        if device not in ("auto", self._device.type):
            raise OptionError(
                f"--device {device} would be every process's; leave it out, and each takes one of its own"
            )
        return "cpu" if self._device.type == "cpu" else str(self._device)

    def average(self, parameters: Sequence[nn.Parameter], weight: float) -> None:
        """Reduce all gradients in one piece; where there are none, zeros stand for them."""
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        whole = self._reduce(torch.cat([grad.flatten() for grad in grads]) * weight, reduction="sum")
        parts = whole.split([grad.numel() for grad in grads])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter).clone()

    def sum(self, value: float) -> float:
        """Add up, in float64."""
        said = torch.tensor([value], dtype=torch.float64, device=self._device)
        return float(self._reduce(said, reduction="sum"))

    def first(self, value: float) -> float:
        """Take the first one's word."""
        said = torch.tensor([value], dtype=torch.float64, device=self._device)
        return float(self._broadcast(said))

    def write(self, act: Callable[[], object]) -> None:
        """Pass on how it ended."""
        failed: list[OutriderError | None] = [None]
        if self.leads:
            try:
                act()
            except OutriderError as error:
                failed = [error]
        (said,) = self._tell(failed)
        if said is not None:
            raise said

    def begin_alike(self, module: nn.Module, about: str) -> None:
        """Send the first one's weights."""
        (said,) = self._tell([about])
        if self.sum(float(said != about)):
            raise OptionError(
                "the processes don't see the same texts, or not the same run in --out; give them the same "
                "directories"
            )
        for tensor in module.state_dict().values():
            self._broadcast(tensor)


def launched() -> bool:
    """Whether this process is one of several."""
    size = os.environ.get("WORLD_SIZE", "")
    return "RANK" in os.environ and size.isdigit() and int(size) > 1


def joined(device: str = "auto", precision: str = "fp32") -> Group:
    """Return the processes that this one was launched with, as the environment tells them.

    CapabilityError where there are several and accelerate (the extra `train`) is missing; OptionError for
    settings of accelerate that would be ignored.
    """
    half = {"fp32": "no"}.get(precision, precision)
    expected = {**LEFT_OUT, "ACCELERATE_MIXED_PRECISION": (half, "say it with --precision fp32 or bf16")}
    for name, (value, why) in expected.items():
        if os.environ.get(name, value).lower() != value:
            raise OptionError(f"{name}={os.environ[name]} is not followed here: {why}")
    if not launched():
        return ALONE
    if find_spec("accelerate") is None:
        raise CapabilityError(
            'several processes train together through accelerate; run: pip install "accelerate>=1.0"'
        )
    from accelerate import PartialState

    cpu = device == "cpu" or os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes")
    return Launched(PartialState(cpu=cpu, timeout=PATIENCE))


def check_alone(what: str) -> None:
    """Refuse what several processes cannot do together: OptionError."""
    if launched():
        raise OptionError(f"{what} runs in one process; start it without a launcher")
