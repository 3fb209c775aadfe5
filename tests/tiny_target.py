"""A tiny target over single bytes, as a directory: random weights, laws far from flat."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from outrider.models.names import expected_shapes
from tiny import tiny_config

TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CONTROL = ("<|end|>", "<|user|>", "<|assistant|>", "<|system|>")
LAYERS, CONTEXT = 8, 128


def write_target(
    directory: Path,
    *,
    seed: int = 0,
    template: str | None = TEMPLATE,
    tokens: dict[str, str] | None = None,
    hidden: int = 32,
) -> Path:
    """Write a Llama of eight narrow layers whose laws are far from flat."""
    directory.mkdir(parents=True, exist_ok=True)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = [(tokens or {}).get(text, text) for text in CONTROL]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in names])
    tokenizer.save(str(directory / "tokenizer.json"))
    config = tiny_config(
        heads=2,
        kv_heads=1,
        head_dim=16,
        hidden=hidden,
        inner=48,
        layers=LAYERS,
        vocab=260,
        context_limit=CONTEXT,
    )
    values = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 260,
        "hidden_size": hidden,
        "intermediate_size": 48,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": 256,
    }
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        name: torch.ones(shape)
        if len(shape) == 1
        else torch.randn(shape, generator=generator) * (0.25 if "layers" in name else 0.8)
        for name, shape in expected_shapes(config).items()
    }
    unsaid = [i for i, text in enumerate(letters) if not (text.isascii() and text.isalnum())]
    tensors["lm_head.weight"][[*unsaid, 257, 258, 259]] *= 0.1  # what is written can be read
    tensors["lm_head.weight"][256] *= 1.6  # turns end sooner
    about = {"eos_token": "<|end|>"} | ({} if template is None else {"chat_template": template})
    (directory / "config.json").write_text(json.dumps(values))
    (directory / "tokenizer_config.json").write_text(json.dumps(about))
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    return directory
