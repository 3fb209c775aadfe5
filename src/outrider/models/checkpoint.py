"""A lean decoder's weights and configuration as they are, and written anew as a Hugging Face directory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outrider.errors import CapabilityError, LoadError, UnsupportedModelError
from outrider.models.base import Tokenizer
from outrider.models.config import DecoderConfig
from outrider.models.families.base import Family
from outrider.models.gguf_file import GGUFFile
from outrider.models.linear import fits_half
from outrider.models.load import families
from outrider.models.locate import locate
from outrider.models.rope import rope_config
from outrider.models.safetensors_source import SINGLE, SafetensorsSource, read_json
from outrider.models.source import TensorSource, check_complete, head_is_tied
from outrider.models.vocab import TextTokenizer

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
)
Place = Callable[[Path, Callable[[Path], object]], None]
"""Makes a file whole: called with its path and what writes it to the path it is given."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A decoder's configuration and tensors; `values` are those of its `config.json`."""

    config: DecoderConfig
    source: TensorSource
    values: Mapping[str, Any]
    directory: Path | None
    """Where its tokenizer's files lie; None where it came as a GGUF file."""


def open_checkpoint(model: str) -> Checkpoint:
    """Return the checkpoint that `model` names, as `load_model` takes it, without building the decoder.

    UnsupportedModelError for what the lean decoder does not run, or what no `config.json` can say.
    """
    path = locate(model)
    config, source, values = _from_directory(path) if path.is_dir() else _from_gguf(path)
    if config.tied_embeddings and not head_is_tied(source):
        config, values = replace(config, tied_embeddings=False), {**values, "tie_word_embeddings": False}
    check_complete(config, source)
    return Checkpoint(config, source, values, path if path.is_dir() else None)


def pruned(checkpoint: Checkpoint, layers: Sequence[int]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the `config.json` and the tensors, float32, of a model made of some layers, in this order."""
    values = {**checkpoint.values, "num_hidden_layers": len(layers)}
    windows = checkpoint.config.windows
    if values.get("layer_types") is not None:
        values["layer_types"] = [values["layer_types"][layer] for layer in layers]
    elif len(set(windows)) > 1:
        values["layer_types"] = [
            "full_attention" if windows[layer] is None else "sliding_attention" for layer in layers
        ]
    tensors: dict[str, Tensor] = {}
    for name in sorted(checkpoint.source.names()):
        if not name.startswith("model.layers."):
            tensors[name] = checkpoint.source.get(name)
            continue
        number, rest = name.removeprefix("model.layers.").split(".", 1)
        for place, layer in enumerate(layers):
            if int(number) == layer and not rest.endswith("rotary_emb.inv_freq"):
                tensors[f"model.layers.{place}.{rest}"] = checkpoint.source.get(name)
    if checkpoint.config.tied_embeddings:
        tensors.pop("lm_head.weight", None)
    return values, tensors


def write_checkpoint(
    directory: Path,
    values: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    checkpoint: Checkpoint,
    tokenizer: Tokenizer,
    place: Place,
) -> None:
    """Write a Hugging Face directory with the tokenizer of `checkpoint`.

    Each file comes to be through `place`. Matrices are in fp16, or in fp32 where one does not fit; norms
    and biases, which are small, in fp32.
    """
    from safetensors.torch import save

    half = all(fits_half(tensor) for tensor in tensors.values())
    dtype = torch.float16 if half else torch.float32
    typed = {name: t.to(dtype if t.dim() > 1 else torch.float32) for name, t in tensors.items()}
    data = save({name: t.cpu().contiguous() for name, t in typed.items()}, metadata={"format": "pt"})
    said = {key: value for key, value in values.items() if key not in ("torch_dtype", "dtype")}
    said["dtype"] = "float16" if half else "float32"
    if checkpoint.directory is not None:
        for name in TOKENIZER_FILES:
            file = checkpoint.directory / name
            if file.exists():
                place(directory / name, lambda path, file=file: shutil.copyfile(file, path))  # type: ignore[misc]
    else:
        _write_tokenizer(directory, tokenizer, place)
        said["eos_token_id"] = sorted(tokenizer.eos_ids)
    place(directory / SINGLE, lambda path: path.write_bytes(data))
    place(directory / "config.json", lambda path: path.write_text(json.dumps(said, indent=2) + "\n"))


def _from_directory(path: Path) -> tuple[DecoderConfig, TensorSource, dict[str, Any]]:
    values = read_json(path / "config.json")
    kind = values.get("model_type")
    family = _family(path, lambda one: kind in one.model_types)
    return family.from_hf(values), SafetensorsSource(path), values


def _from_gguf(path: Path) -> tuple[DecoderConfig, TensorSource, dict[str, Any]]:
    file = GGUFFile(path)
    named = file.metadata.get("general.architecture")
    family = _family(path, lambda one: named in one.gguf_architectures)
    config = family.from_gguf(file)
    return config, family.gguf_source(file, config), _values(family, config)


def _family(path: Path, fits: Callable[[Family], bool]) -> Family:
    found = next((family for family in families() if fits(family)), None)
    if found is None:
        raise UnsupportedModelError(f"{path} is no model of {', '.join(one.name for one in families())}")
    return found


def _write_tokenizer(directory: Path, tokenizer: Tokenizer, place: Place) -> None:
    if not isinstance(tokenizer, TextTokenizer):
        raise CapabilityError("this tokenizer cannot be written to files")
    description, about = tokenizer.description(), json.dumps(tokenizer.configuration(), indent=2)
    place(directory / "tokenizer.json", lambda path: path.write_text(description, encoding="utf-8"))
    place(directory / "tokenizer_config.json", lambda path: path.write_text(about + "\n", encoding="utf-8"))


def _values(family: Family, config: DecoderConfig) -> dict[str, Any]:
    """Return a `config.json` that says the same; UnsupportedModelError where none does."""
    values: dict[str, Any] = {
        "architectures": [family.architectures[0]],
        "model_type": family.model_types[0],
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": _theta(config),
        "max_position_embeddings": config.context_limit,
        "tie_word_embeddings": config.tied_embeddings,
        "hidden_act": "silu",
        "attention_bias": config.output_bias,
        "mlp_bias": config.mlp_bias,
    }
    windows = set(config.windows)
    if len(windows) == 1:
        values["sliding_window"] = next(iter(windows))
    try:
        same = family.from_hf(values) == config
    except LoadError:
        same = False
    if not same:
        raise UnsupportedModelError(
            f"this {family.name} model has what no config.json says (scaled positions or "
            "a mixture of windows, in a GGUF file); give its original Hugging Face directory instead"
        )
    return values


def _theta(config: DecoderConfig) -> float:
    """Return the base of plain rotary positions: a whole number where that gives the same frequencies."""
    dim, second = config.head_dim, config.rope.inv_freq[1:2]
    base = second[0] ** (-dim / 2) if second and second[0] > 0 else 10000.0
    whole = float(f"{base:.6g}")
    plain = rope_config({"rope_theta": whole}, dim, config.context_limit)
    return whole if plain.inv_freq == config.rope.inv_freq else base
