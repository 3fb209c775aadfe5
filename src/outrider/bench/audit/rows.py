"""Are the logits of a position the same bits alone and beside others?"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from outrider.bench.audit.check import Check
from outrider.cache.base import Cache
from outrider.models.base import Batch, Target

CHAIN = (-1, 0, 1, 2, 3, 4, 5)
TREE = (-1, 0, 0, 0, 1, 1, 2, 4, 4, 6, 9)


def row_checks(target: Target, *, seed: int = 0) -> Iterator[Check]:
    """Compare the logits of positions computed alone with those computed beside others, bit for bit.

    Alone means: the whole text one row a pass. Beside others: the context in one pass, then a chain, a tree
    (where the target can branch), and two sequences in one pass.
    """
    draw = random.Random(seed)
    room = target.context_limit - len(TREE)
    texts = [[draw.randrange(target.vocab_size) for _ in range(min(n, room))] for n in (37, 11)]
    guesses = [[draw.randrange(target.vocab_size) for _ in TREE] for _ in texts]

    def beside(shapes: Sequence[Sequence[int]]) -> Tensor:
        caches = [_filled(target, text) for text in texts[: len(shapes)]]
        return target.forward(_batch(shapes, guesses, caches), caches)

    def alone(shapes: Sequence[Sequence[int]]) -> Tensor:
        return torch.cat(
            [
                _one_by_one(target, [*text, *path])
                for text, tokens, shape in zip(texts, guesses, shapes, strict=False)
                for path in _paths(tokens, shape)
            ]
        )

    layouts: dict[str, list[tuple[int, ...]]] = {"in a chain": [CHAIN], "in a batch": [CHAIN[:4], CHAIN[:1]]}
    if target.can_branch:
        layouts |= {"in a tree": [TREE], "in a batch of trees": [TREE, TREE[:6]]}
    for place, shapes in layouts.items():
        yield _same(f"rows {place}", beside(shapes), alone(shapes))
    if not target.can_branch:
        yield Check("rows in a tree", True, "not looked at: this target runs chains only")


def _same(name: str, found: Tensor, expected: Tensor) -> Check:
    differing = int((found != expected).any(dim=-1).sum())
    if not differing:
        return Check(name, True, f"{len(found)} rows equal to the same rows alone, bit for bit")
    gap = float((found - expected).abs().max())
    scale = float(expected.abs().max())
    detail = f"{differing} of {len(found)} rows differ from the same rows alone, by up to {gap:.2e}"
    return Check(name, False, f"{detail} (logits up to {scale:.1f})")


def _filled(target: Target, text: Sequence[int]) -> Cache:
    cache = target.new_cache()
    rows = range(len(text))
    parents = tuple(row - 1 for row in rows)
    target.forward(Batch(tuple(text), tuple(rows), (0,) * len(text), parents, (len(text) - 1,)), [cache])
    cache.keep(rows)
    return cache


def _one_by_one(target: Target, text: Sequence[int]) -> Tensor:
    """Return the logits [1, V] after a text that was run one row a pass."""
    cache = target.new_cache()
    logits = torch.empty(0)
    for position, token in enumerate(text):
        logits = target.forward(Batch((token,), (position,), (0,), (-1,), (0,)), [cache])
        cache.keep((0,))
    return logits


def _batch(
    shapes: Sequence[Sequence[int]], guesses: Sequence[Sequence[int]], caches: Sequence[Cache]
) -> Batch:
    """Pack a tree for each sequence: `shapes` are parents, `guesses` the tokens to fill them with."""
    tokens: list[int] = []
    positions: list[int] = []
    sequences: list[int] = []
    parents: list[int] = []
    for index, (shape, guessed, cache) in enumerate(zip(shapes, guesses, caches, strict=False)):
        start = len(tokens)
        for row, parent in enumerate(shape):
            tokens.append(guessed[row])
            sequences.append(index)
            parents.append(parent if parent < 0 else start + parent)
            positions.append(cache.length if parent < 0 else positions[start + parent] + 1)
    return Batch(tuple(tokens), tuple(positions), tuple(sequences), tuple(parents), tuple(range(len(tokens))))


def _paths(tokens: Sequence[int], shape: Sequence[int]) -> Iterator[list[int]]:
    """Yield for each row the tokens from the root down to it."""
    paths: list[list[int]] = []
    for row, parent in enumerate(shape):
        paths.append([*(paths[parent] if parent >= 0 else []), tokens[row]])
    yield from paths
