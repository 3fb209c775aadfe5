"""Write a draft model made of a model's own first layers, as an ordinary Hugging Face directory.

Untrained, so it guesses poorly; it has the same vocabulary, which makes it a real second model for checks of
`lm` drafting without a download.

    python benchmarks/pruned_draft.py out/draft --layers 10
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
    parser.add_argument("--layers", type=int, default=10)
    arguments = parser.parse_args()
    file = GGUFFile(locate(arguments.model))
    config = LLAMA.from_gguf(file)
    source = GGUFSource(file, heads=config.heads, kv_heads=config.kv_heads)
    wanted = {
        name
        for name in source.names()
        if not name.startswith("model.layers.") or int(name.split(".")[2]) < arguments.layers
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    save_file({name: source.get(name).half() for name in wanted}, arguments.out / "model.safetensors")
    values = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": arguments.layers,
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
    print(f"{arguments.out}: the first {arguments.layers} of {config.layers} layers")


if __name__ == "__main__":
    main()
