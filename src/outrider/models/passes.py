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
"""Environment variable that names an instruction set of the native pass: amx, avx512, avx2, neon or
portable."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How a model is to be run: format of the weights, device, implementation of the lean decoder's pass."""

    weights: str
    device: torch.device
    implementation: str
    named_device: bool = False
    """Whether the device was asked for by name."""
    named_pass: bool = False
    """Whether the implementation was; the environment's word does not count."""
    activations: str = "auto"
    """What matrices of int8 or of blocks take their inputs as, on the native pass."""


def build_decoder(
    config: DecoderConfig, source: TensorSource, choice: Choice
) -> tuple[Decoder | NativeDecoder, list[str]]:
    """Return a decoder and what there is to say about how it came to be chosen.

    CapabilityError where the native pass is asked for by name and cannot be had, or where activations are
    named and it does not run; OptionError for weights "file" without a GGUF file, for activations that these
    weights do not take, or an instruction set that this processor lacks.
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
        if choice.activations != "auto":
            why = reason or "the PyTorch pass was named"
            raise CapabilityError(
                f"activations {choice.activations!r} are the native pass's, which does not run here: {why}; "
                "leave activations to auto"
            )
        said = []
        if choice.implementation == "auto" and choice.device.type == "cpu":
            said.append(f"running the slower PyTorch pass: {reason}")
        decoder = Decoder(config, source, weights=choice.weights, device=choice.device)
        return decoder, said + _rounding(source, choice, decoder.weights)
    from outrider.native.decoder import NativeDecoder

    isa = os.environ.get(ISA_VARIABLE, "").lower() or None
    try:
        native_decoder = NativeDecoder(
            config, source, weights=choice.weights, activations=choice.activations, isa=isa
        )
    except ValueError as error:
        if isa is None:
            raise
        raise OptionError(
            f"{ISA_VARIABLE}={isa}: {error}; "
            "known are amx, avx512, avx2, neon and portable; unset it for the best"
        ) from error
    return native_decoder, _rounding(source, choice, native_decoder.weights)


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


def check_adapter(choice: Choice, place: torch.device | None = None) -> None:
    """Refuse what the adapter to transformers cannot honour; `place` is where a model in memory lies."""
    if choice.activations != "auto":
        raise CapabilityError(
            f"activations {choice.activations!r} are for the native pass, and this model runs through "
            "transformers; leave activations to auto"
        )
    if choice.named_pass:
        raise CapabilityError(
            f"the {choice.implementation} pass is the lean decoder's, and this model runs through "
            "transformers; leave the pass to auto"
        )
    elsewhere = place is not None and (
        place.type != choice.device.type or choice.device.index not in (None, place.index)
    )
    if choice.named_device and elsewhere:
        raise OptionError(
            f"device {str(choice.device)!r} cannot be chosen for this model, which is in memory on {place}; "
            f"move it with model.to({str(choice.device)!r}), or leave device to auto"
        )


def _rounding(source: TensorSource, choice: Choice, weights: str) -> list[str]:
    """Say so where "auto" took fp16 and the model's numbers are finer, by one matrix of its first layer.

    Numbers below the normal range of fp16 are left out: there bf16, too, is finer.
    """
    name = "model.layers.0.self_attn.k_proj.weight"
    if choice.weights != "auto" or weights != "fp16" or name not in source.names():
        return []
    own = source.get(name)
    changed = own.to(torch.float16).float() != own
    if not bool((changed & (own.abs() >= torch.finfo(torch.float16).smallest_normal)).any()):
        return []
    return [
        "weights auto are fp16 here, which rounds this model's numbers; weights fp32 keeps them as they are"
    ]


def _why_not_native(device: torch.device) -> str | None:
    if device.type != "cpu":
        return f"it runs on a CPU, and the device is {device}"
    return native.why_missing()
