"""A drafting head in a few lines of PyTorch, and random weights for it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.loop.verify.pack import Part
from outrider.models.config import RopeConfig
from outrider.models.rope import rotation
from outrider.native.head import HeadShape
from outrider.types import DraftTree
from pass_conformance import random_tree

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class PlainHead:
    """What `NativeHead` is given, and what it must compute; all of it float32."""

    shape: HeadShape
    layers: list[Tensors]
    top: Tensors
    embedding: Tensor

    def fuse(self, features: Tensor) -> Tensor:
        """[R, F] to [R, H]."""
        if "fusion_norm" in self.top:
            norms = self.top["fusion_norm"].chunk(self.shape.norm_parts)
            parts = features.chunk(self.shape.norm_parts, dim=-1)
            features = torch.cat([self._norm(x, n) for x, n in zip(parts, norms, strict=True)], dim=-1)
        return F.linear(features, self.top["fusion"], self.top.get("fusion_bias"))

    def run(
        self, x: Tensor, tokens: Sequence[int], positions: Sequence[int], sees: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Run rows that begin as `x [R, H]`, of which each sees some, `[R, R]`; logits and states of all."""
        s = self.shape
        cos, sin = (part[list(positions), None] for part in rotation(s.rope, max(positions) + 1))
        embedded = self.embedding[list(tokens)]

        def heads(name: str, y: Tensor, layer: Tensors) -> Tensor:
            out = F.linear(y, layer[name], layer.get(f"{name}_bias")).unflatten(-1, (-1, s.head_dim))
            if name == "v":
                return out.transpose(0, 1)
            if f"{name}_norm" in layer:
                out = self._norm(out, layer[f"{name}_norm"])
            a, b = out.chunk(2, dim=-1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).transpose(0, 1)

        for layer in self.layers:
            y = self._norm(embedded if "hidden_norm" in layer else x, layer["input_norm"])
            if "hidden_norm" in layer:
                normed = self._norm(x, layer["hidden_norm"])
                x = normed if s.norm_before_residual else x
                y = torch.cat([y, normed], dim=-1)
            q, k, v = (heads(name, y, layer) for name in "qkv")
            k, v = (part.repeat_interleave(s.heads // s.kv_heads, dim=0) for part in (k, v))
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=sees).transpose(0, 1).flatten(1)
            x = x + F.linear(mixed, layer["o"], layer.get("o_bias"))
            y = self._norm(x, layer["mlp_norm"])
            x = x + F.linear(F.silu(F.linear(y, layer["gate"])) * F.linear(y, layer["up"]), layer["down"])
        normed = self._norm(x, self.top["norm"])
        return F.linear(normed, self.top["head"]), normed if s.feed_normed else x

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], weight, self.shape.norm_eps)


def plain_head(
    *,
    hidden: int = 48,
    inner: int = 80,
    heads: int = 6,
    kv_heads: int = 2,
    head_dim: int = 16,
    vocab: int = 97,
    names: int = 37,
    features: int = 120,
    layers: int = 1,
    extras: bool = False,
    fusion_norm: bool = False,
    seed: int = 0,
    norm_before_residual: bool = False,
    feed_normed: bool = False,
    norm_parts: int = 1,
) -> PlainHead:
    """Return a head with random weights, large enough that every one of them matters.

    `extras`: biases, and norms of queries and keys.
    """
    generator = torch.Generator().manual_seed(seed)

    def matrix(outputs: int, inputs: int) -> Tensor:
        return torch.randn(outputs, inputs, generator=generator) * 2 * inputs**-0.5

    def vector(size: int) -> Tensor:
        return 1 + 0.3 * torch.randn(size, generator=generator)

    queries, keys = heads * head_dim, kv_heads * head_dim
    made: list[Tensors] = []
    for index in range(layers):
        wide = hidden if index else 2 * hidden
        layer = {"q": matrix(queries, wide), "k": matrix(keys, wide), "v": matrix(keys, wide)}
        layer |= {"o": matrix(hidden, queries), "gate": matrix(inner, hidden), "up": matrix(inner, hidden)}
        layer |= {"down": matrix(hidden, inner), "input_norm": vector(hidden), "mlp_norm": vector(hidden)}
        if not index:
            layer["hidden_norm"] = vector(hidden)
        if extras:
            layer |= {f"{name}_bias": vector(len(layer[name])) for name in "qkvo"}
            layer |= {"q_norm": vector(head_dim), "k_norm": vector(head_dim)}
        made.append(layer)
    top = {"head": matrix(names, hidden), "norm": vector(hidden), "fusion": matrix(hidden, features)}
    if extras:
        top["fusion_bias"] = vector(hidden)
    if fusion_norm:
        top["fusion_norm"] = vector(features)
    rope = RopeConfig(tuple(10000.0 ** (-2 * i / head_dim) for i in range(head_dim // 2)))
    shape = HeadShape(
        vocab_size=vocab,
        draft_vocab_size=names,
        hidden_size=hidden,
        intermediate_size=inner,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        norm_eps=1e-5,
        rope=rope,
        context_limit=600,
        norm_before_residual=norm_before_residual,
        feed_normed=feed_normed,
        norm_parts=norm_parts,
    )
    return PlainHead(shape, made, top, matrix(vocab, hidden))


@dataclass
class Text:
    """A text that a head reads: tokens and features of what is committed, then a tree of rows with inputs."""

    tokens: list[int]
    features: Tensor
    tree: DraftTree
    root: int
    inputs: Tensor

    @staticmethod
    def random(chance: random.Random, plain: PlainHead, length: int, nodes: int) -> Text:
        generator = torch.Generator().manual_seed(chance.randrange(2**40))
        features = 3 * torch.randn(length, plain.top["fusion"].shape[1], generator=generator)
        inputs = 3 * torch.randn(1 + nodes, plain.shape.hidden_size, generator=generator)
        vocab = range(plain.shape.vocab_size)
        return Text(chance.choices(vocab, k=length), features, random_tree(chance, nodes), 5, inputs)

    @property
    def part(self) -> Part:
        return Part(len(self.tokens), [self.root], self.tree, True)

    def path(self, row: int) -> list[int]:
        """Return the rows on the path to one of the tree's rows, 0 for the root row."""
        rows = [row]
        while rows[-1]:
            rows.append(1 + self.tree.parents[rows[-1] - 1])
        return rows[::-1]

    def token(self, row: int) -> int:
        return self.tree.tokens[row - 1] if row else self.root


def plain_outputs(plain: PlainHead, text: Text) -> tuple[Tensor, Tensor]:
    """Return the plain head's logits and states, for the committed rows and then for the tree's."""
    length, rows = len(text.tokens), 1 + len(text.tree)
    sees = torch.ones(length + rows, length + rows, dtype=torch.bool).tril()
    sees[length:, length:] = False
    positions = list(range(length))
    for row in range(rows):
        path = text.path(row)
        sees[length + row, [length + at for at in path]] = True
        positions.append(length + len(path) - 1)
    x = torch.cat([plain.fuse(text.features), text.inputs])
    tokens = text.tokens + [text.token(row) for row in range(rows)]
    return plain.run(x, tokens, positions, sees)
