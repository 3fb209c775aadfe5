"""What every implementation of the pass must hold to: rows that don't depend on their neighbours."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from outrider.loop.verify.pack import Part, pack
from outrider.types import DraftTree

VARIANTS: dict[str, dict[str, Any]] = {
    "grouped": {},
    "one group": {"heads": 3, "kv_heads": 3},
    "seven to one": {"heads": 7, "kv_heads": 1, "head_dim": 8},
    "window": {"window": 13},
    "qk-norm and biases": {"qk_norm": True, "bias": True},
}
VOCAB = 97


def nothing() -> None:
    """Do nothing before a pass."""


def random_tree(chance: random.Random, nodes: int) -> DraftTree:
    tokens = tuple(chance.randrange(VOCAB) for _ in range(nodes))
    return DraftTree(tokens, tuple(chance.randint(-1, node - 1) for node in range(nodes)))


def text_at(tree: DraftTree, node: int) -> list[int]:
    path: list[int] = []
    while node >= 0:
        path.append(tree.tokens[node])
        node = tree.parents[node]
    return path[::-1]


def read(
    model: Any, cache: Any, text: Sequence[int], piece: Callable[[], int], before: Callable[[], None]
) -> None:
    """Read tokens into a cache as prompts are read, in pieces."""
    start = cache.length
    while start < len(text):
        tokens = text[start : start + piece()]
        before()
        model.forward(pack([Part(start, tokens, DraftTree(), False)]), [cache])
        cache.keep(range(len(tokens)))
        start += len(tokens)


def logits_alone(model: Any, text: list[int], before: Callable[[], None] = nothing) -> torch.Tensor:
    """Read the text as prompts are read, then run its last token alone."""
    cache = model.new_cache()
    read(model, cache, text[:-1], lambda: 100, before)
    before()
    return model.forward(pack([Part(len(text) - 1, text[-1:], DraftTree(), True)]), [cache])[0]


def check_rows(
    model: Any, chance: random.Random, lengths: Sequence[int], before: Callable[[], None] = nothing
) -> None:
    """Run a random batch of trees, each row's text also alone, and compare bit for bit.

    Up to four prompts of `lengths` are read in pieces of any size, one to four of them wait for the batch
    itself; `before` is called ahead of every pass and may change what must not matter.
    """
    prompts = [
        [chance.randrange(VOCAB) for _ in range(chance.choice(lengths))] for _ in range(chance.randint(1, 4))
    ]
    trees = [random_tree(chance, chance.randint(0, 20)) for _ in prompts]
    if chance.random() < 0.5:
        trees[0] = DraftTree.chain(trees[0].tokens)
    caches = [model.new_cache() for _ in prompts]
    parts = []
    for prompt, tree, cache in zip(prompts, trees, caches, strict=True):
        cached = chance.randint(0, len(prompt) - 1)
        most = chance.choice([1, 7, 64, 1000])
        longest = max(most, cached // 6)
        read(model, cache, prompt[:cached], lambda: chance.randint(1, longest), before)  # noqa: B023
        parts.append(Part(cached, prompt[cached:], tree, True))
    before()
    logits = model.forward(pack(parts), caches)
    assert torch.isfinite(logits).all()
    row = 0
    for prompt, tree in zip(prompts, trees, strict=True):
        for node in chance.sample(range(-1, len(tree)), min(3, len(tree) + 1)):
            alone = logits_alone(model, prompt + text_at(tree, node), before)
            assert torch.equal(logits[row + 1 + node], alone)
        row += 1 + len(tree)
