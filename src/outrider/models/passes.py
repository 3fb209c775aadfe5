"""Which code runs the lean decoder's pass: C++ where it was built and the model is on a CPU, else PyTorch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from outrider import native
from outrider.errors import CapabilityError, OptionError, UnknownNameError
from outrider.models.config import DecoderConfig
from outrider.models.decoder import Decoder
from outrider.models.source import GGUFSource, TensorSource

if TYPE_CHECKING:
    from outrider.native.decoder import NativeDecoder

PASSES = ("auto", "native", "pytorch")
VARIABLE = "OUTRIDER_PASS"
"""Environment variable that says what "auto" means."""
ISA_VARIABLE = "OUTRIDER_ISA"
"""Environment variable that names an instruction set of the native pass: avx512, avx2, neon or portable."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How a model is to be run: format of the weights, device, implementation of the lean decoder's pass."""

    weights: str
    device: torch.device
    implementation: str


def build_decoder(
    config: DecoderConfig, source: TensorSource, choice: Choice
) -> tuple[Decoder | NativeDecoder, list[str]]:
    """Return a decoder and what there is to say about how it came to be chosen.

    CapabilityError where the native pass is asked for by name and cannot be had, OptionError for weights
    "file" without a GGUF file or an instruction set that this processor lacks.
    """
    if choice.weights == "file" and not isinstance(source, GGUFSource):
        raise OptionError(
            f"weights 'file' are the formats of a GGUF file, and {source.description} is none; "
            "use auto, fp32, fp16, bf16 or int8"
        )
    reason = _why_not_native(choice.device)
    if choice.implementation == "native" and reason is not None:
        raise CapabilityError(f"the native pass cannot run here: {reason}; use the PyTorch pass (pytorch)")
    if choice.implementation == "pytorch" or reason is not None:
        said = []
        if choice.implementation == "auto" and choice.device.type == "cpu":
            said.append(f"running the slower PyTorch pass: {reason}")
        return Decoder(config, source, weights=choice.weights, device=choice.device), said
    from outrider.native.decoder import NativeDecoder

    isa = os.environ.get(ISA_VARIABLE, "").lower() or None
    try:
        return NativeDecoder(config, source, weights=choice.weights, isa=isa), []
    except ValueError as error:
        if isa is None:
            raise
        raise OptionError(
            f"{ISA_VARIABLE}={isa}: {error}; known are avx512, avx2, neon and portable; unset it for the best"
        ) from error


def check_pass(name: str) -> str:
    """Return the name of an implementation, with "auto" as the environment says.

    UnknownNameError for other names, OptionError where the environment holds one.
    """
    if name == "auto":
        name = os.environ.get(VARIABLE) or "auto"
        if name not in PASSES:
            raise OptionError(f"{VARIABLE} must be {', '.join(PASSES[:-1])} or {PASSES[-1]}, not {name!r}")
    if name not in PASSES:
        raise UnknownNameError("pass", name, PASSES)
    return name


def _why_not_native(device: torch.device) -> str | None:
    if device.type != "cpu":
        return f"it runs on a CPU, and the device is {device}"
    return native.why_missing()
