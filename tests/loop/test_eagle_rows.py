"""An EAGLE head's passes over text and trees, against one that runs every path alone, row by row."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from outrider.heads.attend import Growing
from outrider.heads.eagle3 import Eagle3Config, Eagle3Head
from outrider.heads.layer import LayerConfig
from outrider.heads.passes import ReadyHead, TorchHeadPass
from outrider.loop.draft.eagle_rows import READ_ROWS, Followed, HeadReader
from outrider.loop.draft.held import Branches

VOCABULARY, HIDDEN, DRAFT = 24, 16, 9
LAYER = LayerConfig(hidden_size=HIDDEN, intermediate_size=32, heads=4, kv_heads=2, head_dim=8)


def made(**options: bool) -> Eagle3Head:
    torch.manual_seed(0)
    config = Eagle3Config(LAYER, VOCABULARY, DRAFT, HIDDEN, **options)  # type: ignore[arg-type]
    ids = torch.randperm(VOCABULARY)[:DRAFT].sort().values
    return Eagle3Head(config, ids).requires_grad_(False)


def ready(head: Eagle3Head, embedding: Tensor) -> ReadyHead:
    passes = TorchHeadPass(head, embed=lambda tokens: embedding[list(tokens)])
    return ReadyHead(passes, HIDDEN, VOCABULARY, head.target_ids, 512, (0, 1, 2), 0.0)


class Text:
    """One sequence with random states, and what the head gives for any path after it, row by row."""

    def __init__(self, head: Eagle3Head, embedding: Tensor, seed: int) -> None:
        self.draw = random.Random(seed)
        self.head, self.embedding = head, embedding
        self.states = torch.randn(500, 3 * HIDDEN, generator=torch.Generator().manual_seed(seed))
        self.tokens = [self.draw.randrange(VOCABULARY) for _ in range(self.draw.randrange(2, 6))]

    def grow(self, tokens: Sequence[int]) -> None:
        self.tokens += tokens

    def slow(self, path: Sequence[int]) -> Tensor:
        """Return the logits [Vd] after a path."""
        attend, head = Growing(), self.head
        text = [*self.tokens, *path]
        count = len(self.tokens) - 1
        x = head.fuse(self.states[:count])
        x = head(x, self.embedding[text[1 : count + 1]], torch.arange(count), attend)
        for position in range(count, len(text) - 1):
            x = head.fed_back(x[-1:])
            x = head(x, self.embedding[text[position + 1]][None], torch.tensor([position]), attend)
        return head.logits(x[-1])


def grown(draw: random.Random, branches: Branches, count: int) -> None:
    for _ in range(count):
        parent = draw.randrange(-1, len(branches.tokens))
        branches.parents.append(parent)
        branches.tokens.append(draw.randrange(VOCABULARY))


@pytest.mark.parametrize("options", [{}, {"norm_before_residual": True}, {"feed_normed": True}])
def test_rows_in_trees_and_batches_are_those_of_each_path_alone(options: dict[str, bool]) -> None:
    head = made(**options)
    embedding = torch.randn(VOCABULARY, HIDDEN, generator=torch.Generator().manual_seed(1))
    reader = HeadReader(ready(head, embedding))
    texts = [Text(head, embedding, seed) for seed in range(3)]
    followed = [reader.begin(text.tokens) for text in texts]
    for own, text in zip(followed, texts, strict=True):
        reader.take(own, text.states[: len(text.tokens) - 1])
    draw = random.Random(7)
    for _ in range(6):
        branches = [Branches() for _ in texts]
        for _ in range(3):  # levels
            going = [i for i in range(len(texts)) if draw.random() < 0.8]
            wants = []
            for index in going:
                known = len(branches[index].tokens)
                grown(draw, branches[index], draw.randrange(1, 5))
                new = range(known, len(branches[index].tokens))
                chosen = sorted(draw.sample(new, draw.randrange(1, len(new) + 1)))
                wants.append((followed[index], branches[index], [-1] if known == 0 else chosen))
            for index, logits in zip(going, reader.read(wants), strict=True):
                for row, node in enumerate(wants[going.index(index)][2]):
                    path = branches[index].text(node)
                    assert torch.allclose(logits[row], texts[index].slow(path), atol=1e-5)
        for own, text in zip(followed, texts, strict=True):
            before = len(text.tokens)
            new = [draw.randrange(VOCABULARY) for _ in range(draw.randrange(1, 5))]
            reader.take(own, text.states[before - 1 : before - 1 + len(new)])
            own.commit(new)
            text.grow(new)


def test_a_long_prompt_is_read_as_it_comes() -> None:
    head = made()
    embedding = torch.randn(VOCABULARY, HIDDEN)
    reader = HeadReader(ready(head, embedding))
    text = Text(head, embedding, 3)
    text.grow([text.draw.randrange(VOCABULARY) for _ in range(300)])
    own = reader.begin(text.tokens)
    count = len(text.tokens)
    for start in range(0, count - 1, 100):
        reader.take(own, text.states[start : min(start + 100, count - 1)])
        assert sum(len(states) for states in own.waiting) < READ_ROWS
    assert own.ready
    [logits] = reader.read([(own, Branches(), [-1])])
    assert torch.allclose(logits[0], text.slow(()), atol=1e-5)


def test_it_is_not_ready_before_the_states_of_the_prompt_have_come() -> None:
    head = made()
    reader = HeadReader(ready(head, torch.zeros(VOCABULARY, HIDDEN)))
    own: Followed = reader.begin([1, 2, 3])
    assert not own.ready
    reader.take(own, torch.zeros(2, 3 * HIDDEN))
    assert own.ready
