"""From a name, a path or an object to a loaded model."""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from outrider.errors import LoadError, OptionError, UnsupportedModelError, counted
from outrider.models.base import LoadedModel, Tokenizer
from outrider.models.config import DecoderConfig
from outrider.models.decoder import check_activations, check_weights
from outrider.models.families.base import Family
from outrider.models.gguf_file import GGUFFile
from outrider.models.gguf_vocab import tokenizer_from_gguf
from outrider.models.hf_vocab import TransformersTokenizer, eos_ids_of, tokenizer_from_directory
from outrider.models.locate import describe, locate
from outrider.models.passes import Choice, build_decoder, check_adapter, check_pass
from outrider.models.safetensors_source import SafetensorsSource, read_json
from outrider.models.source import StateDictSource, TensorSource, check_complete, head_is_tied
from outrider.registry import FAMILIES


def load_model(
    model: str | Path | Any,
    *,
    weights: str = "auto",
    device: str = "auto",
    tokenizer: Any = None,
    implementation: str = "auto",
    activations: str = "auto",
) -> LoadedModel:
    """Load a model with its tokenizer.

    `model` is "demo", a GGUF file, a Hugging Face model directory, a Hub id "org/name", or a causal
    language model of transformers that is already in memory, which needs its `tokenizer` (of transformers,
    or any object with the methods of `outrider.models.base.Tokenizer`). `weights` is "auto", "fp32", "fp16",
    "bf16", "int8", or "file" for the formats of a GGUF file; `device` is "auto", "cpu", "cuda" or "cuda:N";
    `implementation` of the lean decoder's pass is "auto", "native" or "pytorch" (see `models.passes`);
    `activations` is "auto", "int16" or "int8" (see `native.decoder`).

    Families with a lean decoder run on it, other architectures through transformers where that is installed.
    LoadError, with what to do, where the model cannot be read; UnsupportedModelError where it could be read
    but not run exactly; OptionError or UnknownNameError for `weights` and `device`.
    """
    start = time.perf_counter()
    choice = Choice(
        check_weights(weights),
        _device(device),
        check_pass(implementation),
        named_device=device != "auto",
        named_pass=implementation != "auto",
        activations=check_activations(activations),
    )
    if isinstance(model, str | Path):
        path = locate(str(model))
        loaded = (
            _from_directory(str(model), path, choice)
            if path.is_dir()
            else _from_gguf(str(model), path, choice)
        )
        if tokenizer is not None:
            ends = sorted(loaded.tokenizer.eos_ids)
            loaded = replace(loaded, tokenizer=_wrapped(tokenizer, ends))
    else:
        loaded = _from_object(model, choice, tokenizer)
    loaded.details["load_seconds"] = time.perf_counter() - start
    beyond = [token for token in loaded.tokenizer.vocabulary().values() if token >= loaded.target.vocab_size]
    if beyond:
        loaded.details["notices"].append(
            f"the tokenizer knows {counted(len(beyond), 'token')} that the model has no embedding for, "
            f"ids from {min(beyond)}"
        )
    return loaded


def families() -> list[Family]:
    """Return every model family that has a lean decoder."""
    return [FAMILIES.load(name) for name in FAMILIES]


def _from_gguf(name: str, path: Path, choice: Choice) -> LoadedModel:
    file = GGUFFile(path)
    architecture = file.metadata.get("general.architecture")
    family = next((family for family in families() if architecture in family.gguf_architectures), None)
    if family is None:
        known = sorted({known for family in families() for known in family.gguf_architectures})
        raise UnsupportedModelError(
            f"{path} has the architecture {architecture!r}; GGUF files of {', '.join(known)} can be run. "
            'For others, give the original Hugging Face model after: pip install "transformers>=5.0"'
        )
    config = family.from_gguf(file)
    tokenizer = tokenizer_from_gguf(file.metadata)
    source = family.gguf_source(file, config)
    return _decoder(path.stem, describe(name, path), config, source, tokenizer, choice, [])


def _from_directory(name: str, path: Path, choice: Choice) -> LoadedModel:
    values = read_json(path / "config.json")
    family = _hf_family(values)
    notices: list[str] = []
    if family is not None:
        try:
            config = family.from_hf(values)
        except UnsupportedModelError as error:
            # transformers may still run this variant, only slower and without trees
            if importlib.util.find_spec("transformers") is None:
                raise
            notices.append(f"not run on the lean decoder: {error}")
        else:
            source, tokenizer = SafetensorsSource(path), tokenizer_from_directory(path)
            return _decoder(
                path.name,
                describe(name, path),
                config,
                source,
                tokenizer,
                choice,
                notices,
            )
    elif importlib.util.find_spec("transformers") is None:
        raise UnsupportedModelError(
            f"{path} has the architecture {_architecture(values)!r}; "
            f"the lean decoder runs {', '.join(FAMILIES)}. "
            'Others run through transformers where it knows them: pip install "transformers>=5.0"'
        )
    from outrider.models.hf import TransformersTarget, load_causal_lm

    check_adapter(choice)
    target = TransformersTarget(load_causal_lm(path, choice.weights, choice.device))
    details = {
        "architecture": _architecture(values),
        "parameters": target.parameters,
        "weights": target.weights,
        "kernel": target.kernel,
        "source": describe(name, path),
        "notices": notices + target.notices,
    }
    return LoadedModel(path.name, target, tokenizer_from_directory(path), details)


def _from_object(model: Any, choice: Choice, tokenizer: Any) -> LoadedModel:
    known = isinstance(model, torch.nn.Module) and hasattr(model, "config") and hasattr(model, "generate")
    if not known:
        raise LoadError(
            f"cannot load a {type(model).__name__}; "
            "give a name, a path or a causal language model of transformers"
        )
    if tokenizer is None:
        raise LoadError("a model in memory comes without its tokenizer; pass it as tokenizer=…")
    values = model.config.to_dict()
    generation = getattr(model, "generation_config", None)
    eos_ids = eos_ids_of(values, generation.to_dict() if generation is not None else {})
    wrapped = _wrapped(tokenizer, eos_ids)
    name = Path(getattr(model.config, "_name_or_path", "") or type(model).__name__).name
    source = f"{type(model).__name__} in memory"
    notices: list[str] = []
    family = _hf_family(values)
    if family is not None and type(model).__name__ in family.architectures:
        try:
            config = family.from_hf(values)
        except UnsupportedModelError as error:
            notices.append(f"not run on the lean decoder: {error}")
        else:
            tensors = StateDictSource(model.state_dict(), source)
            return _decoder(name, source, config, tensors, wrapped, choice, notices)
    from outrider.models.hf import TransformersTarget

    if choice.weights != "auto":
        raise OptionError(
            f"weights {choice.weights!r} cannot be chosen for a model that is already in memory; use 'auto'"
        )
    check_adapter(choice, model.device)
    target = TransformersTarget(model)
    details = {
        "architecture": _architecture(values),
        "parameters": target.parameters,
        "weights": target.weights,
        "kernel": target.kernel,
        "source": source,
        "notices": notices + target.notices,
    }
    return LoadedModel(name, target, wrapped, details)


def _decoder(
    name: str,
    described: str,
    config: DecoderConfig,
    source: TensorSource,
    tokenizer: Tokenizer,
    choice: Choice,
    notices: list[str],
) -> LoadedModel:
    if config.tied_embeddings and not head_is_tied(source):
        config = replace(config, tied_embeddings=False)
        notices.append(
            "the configuration ties the output head to the embedding; the checkpoint's own head is used"
        )
    check_complete(config, source)
    decoder, said = build_decoder(config, source, choice)
    details = {
        "architecture": config.family,
        "parameters": decoder.parameters,
        "weights": decoder.weights,
        "activations": decoder.activations,
        "kernel": decoder.kernel,
        "source": described,
        "notices": notices + said + decoder.notices,
    }
    return LoadedModel(name, decoder, tokenizer, details)


def _hf_family(values: Mapping[str, Any]) -> Family | None:
    """Return the family of a Hugging Face configuration; None where the lean decoder has no part in it."""
    named = values.get("architectures")
    for family in families():
        if values.get("model_type") in family.model_types:
            if named and not set(named) & set(family.architectures):
                raise UnsupportedModelError(
                    f"{named[0]} is not a causal language model; {family.architectures[0]} is what can be run"
                )
            return family
    return None


def _architecture(values: Mapping[str, Any]) -> str:
    named = values.get("architectures")
    return str(named[0] if named else values.get("model_type", "unknown"))


def _wrapped(tokenizer: Any, eos_ids: list[int] | None = None) -> Tokenizer:
    if hasattr(tokenizer, "vocabulary") and hasattr(tokenizer, "eos_ids"):
        known: Tokenizer = tokenizer
        return known
    if hasattr(tokenizer, "get_vocab") and hasattr(tokenizer, "all_special_ids"):
        return TransformersTokenizer(tokenizer, eos_ids or ())
    raise LoadError(f"a {type(tokenizer).__name__} is not a tokenizer; give one of transformers")


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", name) if isinstance(name, str) else None
    if match is None:
        raise OptionError(f"device must be auto, cpu, cuda or cuda:N, not {name!r}")
    if name != "cpu":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(match[1] or 0) >= count:
            raise OptionError(f"device {name} is not there ({count} CUDA devices); use cpu or auto")
    return torch.device(name)
