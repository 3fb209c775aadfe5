"""Write a draft model made of some of a model's own layers, as an ordinary Hugging Face directory.

Untrained, so it guesses poorly; it has the same vocabulary, which makes it a real second model for checks of
`lm` drafting without a download. Leaving out a few layers near the front costs less agreement than the last.

    python benchmarks/pruned_draft.py out/draft --layers 10
    python benchmarks/pruned_draft.py out/draft26 --without 4,5,6,7
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from safetensors.torch import save_file

from outrider.models.families.llama import LLAMA
from outrider.models.gguf_file import GGUFFile
from outrider.models.gguf_vocab import tokenizer_from_gguf
from outrider.models.locate import locate
from outrider.models.source import GGUFSource


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="demo", help="a GGUF file of a Llama model with tied embeddings")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--layers", type=int, help="keep the first N layers (10 where nothing is said)")
    kept.add_argument("--without", metavar="A,B,…", help="keep all layers but these, counted from 0")
    arguments = parser.parse_args()
    file = GGUFFile(locate(arguments.model))
    config = LLAMA.from_gguf(file)
    source = GGUFSource(file, heads=config.heads, kv_heads=config.kv_heads)
    layers = list(range(config.layers if arguments.without else arguments.layers or 10))
    for left_out in map(int, (arguments.without or "").split(",") if arguments.without else ()):
        layers.remove(left_out)
    wanted = {new: name for name in source.names() if (new := renamed(name, layers)) is not None}
    arguments.out.mkdir(parents=True, exist_ok=True)
    save_file(
        {new: source.get(name).half() for new, name in wanted.items()}, arguments.out / "model.safetensors"
    )
    values = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": len(layers),
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": file.metadata["llama.rope.freq_base"],
        "max_position_embeddings": config.context_limit,
        "tie_word_embeddings": config.tied_embeddings,
        "hidden_act": "silu",
    }
    (arguments.out / "config.json").write_text(json.dumps(values, indent=2))
    tokenizer_from_gguf(file.metadata).backend.save(str(arguments.out / "tokenizer.json"))
    print(f"{arguments.out}: {len(layers)} of {config.layers} layers")


def renamed(name: str, layers: list[int]) -> str | None:
    """Return a tensor's name in the draft model, None where its layer is left out."""
    if not name.startswith("model.layers."):
        return name
    head, layer, rest = "model.layers", int(name.split(".")[2]), name.split(".", 3)[3]
    return f"{head}.{layers.index(layer)}.{rest}" if layer in layers else None


if __name__ == "__main__":
    main()
