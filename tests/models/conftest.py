"""Tiny random models and tokenizers that the tests of this room build on the spot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

VOCAB = 300
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "eos_token_id": 1,
    "bos_token_id": 0,
}


@pytest.fixture
def tiny_config() -> Callable[..., Any]:
    """Return a function from a model type and options to a transformers configuration of a tiny model."""
    transformers = pytest.importorskip("transformers")

    def build(model_type: str, **options: Any) -> Any:
        return transformers.AutoConfig.for_model(model_type, **{**SIZES, **options})

    return build


@pytest.fixture
def tiny_model(tiny_config: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function from a model type and options to a tiny model of transformers with random weights.

    Norms and biases are random too, so that leaving one out shows.
    """
    transformers = pytest.importorskip("transformers")

    def build(model_type: str, **options: Any) -> Any:
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(tiny_config(model_type, **options)).eval()
        with torch.no_grad():
            for name, tensor in model.named_parameters():
                if "norm" in name.lower() or ".ln_" in name or name.endswith("bias"):
                    tensor.uniform_(0.5, 1.5)
                else:
                    tensor.normal_(std=0.2)
        return model

    return build


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    """Return a byte-level tokenizer of 300 tokens: two special ones, the bytes and some merges."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "w"), ("Ġw", "o"), ("r", "l")]
    tokens = ["<s>", "</s>", *alphabet, *("".join(pair) for pair in merges)]
    tokens += [f"<extra_{i}>" for i in range(VOCAB - len(tokens) - 1)] + ["<|im_end|>"]
    backend = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(tokens)}, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    backend.add_special_tokens(["<s>", "</s>", "<|im_end|>"])
    return backend


TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "[{{ message['role'] }}] {{ message['content'] }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture
def save(byte_level: Tokenizer) -> Callable[[Any, Path], Path]:
    """Return a function that writes a model and the tokenizer to a directory, in shards."""
    transformers = pytest.importorskip("transformers")

    def write(model: Any, directory: Path) -> Path:
        model.save_pretrained(directory, max_shard_size="30KB")
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=byte_level, bos_token="<s>", eos_token="</s>", chat_template=TEMPLATE
        )
        tokenizer.save_pretrained(directory)
        return directory

    return write
