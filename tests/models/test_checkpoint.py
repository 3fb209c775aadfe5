"""A checkpoint taken apart and written anew: the same model, or chosen layers of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from outrider.errors import UnsupportedModelError
from outrider.models.base import Batch, LoadedModel
from outrider.models.checkpoint import open_checkpoint, pruned, write_checkpoint
from outrider.models.gguf_file import GGUFFile
from outrider.models.load import load_model
from tiny_blocks import block_config, write_blocks

TEXT = (7, 3, 50, 41, 41, 8, 60, 20, 5, 64)


def place(path: Path, write: Callable[[Path], object]) -> None:
    path.parent.mkdir(exist_ok=True)
    write(path)


def logits(model: LoadedModel, layers: list[int] | None = None) -> torch.Tensor:
    target: Any = model.target
    rows = range(len(TEXT))
    batch = Batch(TEXT, tuple(rows), (0,) * len(TEXT), tuple(row - 1 for row in rows), tuple(rows))
    found: torch.Tensor = target.run(batch, [target.new_cache()], layers=layers).logits
    return found


def rewritten(source: str, out: Path, layers: list[int]) -> LoadedModel:
    checkpoint = open_checkpoint(source)
    values, tensors = pruned(checkpoint, layers)
    write_checkpoint(out, values, tensors, checkpoint, load_model(source).tokenizer, place)
    return load_model(str(out), weights="fp32")


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True, "attention_bias": True}),
        ("mistral", {"sliding_window": 4}),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
        ("qwen3", {"head_dim": 16}),
    ],
)
def test_chosen_layers_are_written_as_a_model_that_runs_as_they_do(
    family: str,
    options: dict[str, Any],
    tiny_model: Callable[..., Any],
    save: Callable[..., Path],
    tmp_path: Path,
) -> None:
    """Weights are rounded to fp16 beforehand, so that the files hold the very same numbers."""
    model = tiny_model(family, **{"num_hidden_layers": 3, **options})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    source = str(save(model, tmp_path / "source"))
    loaded = load_model(source, weights="fp32")
    for layers in ([0, 1, 2], [0, 2]):
        again = rewritten(source, tmp_path / f"again{len(layers)}", layers)
        torch.testing.assert_close(logits(again), logits(loaded, layers))
        assert again.tokenizer.eos_ids == loaded.tokenizer.eos_ids
        assert again.tokenizer.has_chat_template


def test_a_gguf_file_becomes_a_directory_of_the_same_model(tmp_path: Path) -> None:
    config = block_config("Q8_0", layers=2)
    source = str(write_blocks(tmp_path / "model.gguf", config, lambda _: "F16"))
    again = rewritten(source, tmp_path / "again", [0, 1])
    loaded = load_model(source, weights="fp32")
    torch.testing.assert_close(logits(again), logits(loaded))
    assert again.tokenizer.encode("ABC") == loaded.tokenizer.encode("ABC")
    assert again.tokenizer.eos_ids == loaded.tokenizer.eos_ids


def test_what_no_configuration_can_say_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_blocks(tmp_path / "model.gguf", block_config("Q8_0"), lambda _: "F16")
    assert GGUFFile(source).metadata["general.architecture"] == "llama"
    metadata = dict(GGUFFile(source).metadata)
    metadata |= {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.0}
    monkeypatch.setattr(GGUFFile, "metadata", property(lambda _: metadata, lambda *_: None), raising=False)
    with pytest.raises(UnsupportedModelError, match="give its original Hugging Face directory instead"):
        open_checkpoint(str(source))
