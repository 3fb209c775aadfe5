"""Reading a prompt against PyTorch's own large matrix products.

    python benchmarks/prefill.py [--model demo] [--weights fp16,int8] [--chunks 256,512,1024] [--tokens 1024]
                                 [--threads N] [--repeats N] [--json]

The bound is what PyTorch's products of the same shapes take: every linear layer of the model but the head, in
float32 over all tokens at once, as `F.linear` or with weights prepacked for oneDNN, whichever is faster here.
A prompt also needs attention, norms and the head for its last token. Everything is timed in turn, `repeats`
times; the least time counts. With --json the last line of the output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from outrider.bench.provenance import provenance
from outrider.models.base import Batch, Target
from outrider.models.config import DecoderConfig
from outrider.models.load import load_model


def shapes(config: DecoderConfig) -> list[tuple[int, int]]:
    """Return outputs and inputs of one layer's products; what takes the same input is one product."""
    q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    hidden, inner = config.hidden_size, config.intermediate_size
    return [(q + 2 * kv, hidden), (hidden, q), (2 * inner, hidden), (hidden, inner)]


def products(config: DecoderConfig, tokens: int) -> dict[str, Callable[[], None]]:
    """Return PyTorch's ways to do all products over `tokens` rows; every layer has weights of its own."""
    weights = [torch.randn(shape) for _ in range(config.layers) for shape in shapes(config)]
    rows = {inputs: torch.randn(tokens, inputs) for _, inputs in shapes(config)}

    def linear() -> None:
        for weight in weights:
            F.linear(rows[weight.shape[1]], weight)

    ways: dict[str, Callable[[], None]] = {"F.linear": linear}
    if torch.backends.mkldnn.is_available():
        ops = torch.ops.mkldnn
        packed = [ops._reorder_linear_weight(weight, tokens) for weight in weights]

        def prepacked() -> None:
            for weight, blob in zip(weights, packed, strict=True):
                ops._linear_pointwise(rows[weight.shape[1]], blob, None, "none", [], "")

        ways["oneDNN, prepacked"] = prepacked
    return ways


def prefill(target: Target, tokens: list[int], chunk: int) -> None:
    """Read the tokens `chunk` at a time, with logits for the last token of each."""
    cache = target.new_cache()
    for start in range(0, len(tokens), chunk):
        piece = tuple(tokens[start : start + chunk])
        rows = len(piece)
        positions, parents = tuple(range(start, start + rows)), tuple(range(-1, rows - 1))
        target.forward(Batch(piece, positions, (0,) * rows, parents, (rows - 1,)), [cache])
        cache.keep(range(rows))


def measure(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the least seconds of each way; they take turns."""
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(repeats):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            least[name] = min(least[name], time.perf_counter() - started)
    return least


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="demo")
    parser.add_argument("--weights", default="fp16,int8", help="formats, with commas between")
    parser.add_argument("--chunks", type=numbers, default=[256, 512, 1024], help="rows of a pass")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    models = {
        weights: load_model(arguments.model, weights=weights) for weights in arguments.weights.split(",")
    }
    first = next(iter(models.values()))
    config = getattr(first.target, "config", None)
    if config is None:
        sys.exit(f"{arguments.model} does not run on the lean decoder")
    draw = random.Random(0).randrange
    tokens = [draw(first.target.vocab_size) for _ in range(arguments.tokens)]
    with torch.inference_mode():
        bounds = products(config, arguments.tokens)
        ways: dict[str, Callable[[], object]] = dict(bounds)
        for weights, model in models.items():
            for chunk in arguments.chunks:
                ways[f"{weights} {chunk}"] = lambda target=model.target, chunk=chunk: prefill(
                    target, tokens, chunk
                )
        least = measure(ways, arguments.repeats)
    bound = min(least[name] for name in bounds)
    rows: list[dict[str, Any]] = []
    for name, seconds in least.items():
        rate = arguments.tokens / seconds
        rows.append(
            {"what": name, "seconds": seconds, "tokens_per_second": rate, "share_of_bound": bound / seconds}
        )
        print(f"{name:20} {seconds * 1000:8.0f} ms {rate:8.0f} tokens/s   {bound / seconds:.2f} of the bound")
    document = {
        "schema": {"name": "outrider.bench.prefill", "version": 1},
        "tokens": arguments.tokens,
        "repeats": arguments.repeats,
        "results": rows,
        "provenance": {
            **provenance(first),
            "command": " ".join(["python", "benchmarks/prefill.py", *sys.argv[1:]]),
            "kernels": {weights: model.details.get("kernel") for weights, model in models.items()},
        },
    }
    if arguments.json:
        print(json.dumps(document))


if __name__ == "__main__":
    main()
