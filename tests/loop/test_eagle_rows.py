"""An EAGLE head's passes over text and trees, against one that runs every path alone, row by row."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from outrider.cache.base import Cache
from outrider.heads.attend import Growing
from outrider.heads.eagle3 import Eagle3Config, Eagle3Head
from outrider.heads.layer import LayerConfig
from outrider.heads.passes import HeadOutput, HeadPass, ReadyHead, TorchHeadPass
from outrider.loop.draft.eagle_rows import READ_ROWS, Followed, HeadReader
from outrider.loop.draft.held import Branches
from outrider.models.base import Batch
from outrider.native import why_missing
from tiny import RandomSource, tiny_config

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


def ready_in_core(head: Eagle3Head, embedding: Tensor) -> ReadyHead:
    """Return the head in the core, whose passes add rows to those that are pending."""
    from outrider.native.decoder import NativeDecoder
    from outrider.native.eagle3 import native_head

    config = tiny_config(hidden=HIDDEN, vocab=VOCABULARY, layers=8, context_limit=512)
    source = RandomSource(config)
    embedding.copy_(source.get("model.embed_tokens.weight"))
    passes = native_head(head, NativeDecoder(config, source, weights="fp32"), weights="fp32")
    return ReadyHead(passes, HIDDEN, VOCABULARY, head.target_ids, 512, (0, 1, 2), 0.0)


IN_CORE = pytest.param(
    ready_in_core, id="core", marks=pytest.mark.skipif(why_missing() is not None, reason="not built")
)
PASSES = [pytest.param(ready, id="pytorch"), IN_CORE]
Ready = Callable[[Eagle3Head, Tensor], ReadyHead]


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


@pytest.mark.parametrize("make", PASSES)
@pytest.mark.parametrize("options", [{}, {"norm_before_residual": True}, {"feed_normed": True}])
def test_rows_in_trees_and_batches_are_those_of_each_path_alone(
    options: dict[str, bool], make: Ready
) -> None:
    head = made(**options)
    embedding = torch.randn(VOCABULARY, HIDDEN, generator=torch.Generator().manual_seed(1))
    reader = HeadReader(make(head, embedding))
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


class Counting:
    """A head's passes, with the rows that each ran; the one whose turn it is fails."""

    can_grow = True

    def __init__(self, passes: HeadPass, fails: int = 100) -> None:
        self.rows: list[int] = []
        self.weight_bytes, self.new_cache = passes.weight_bytes, passes.new_cache
        self.features = passes.features
        self._passes, self._fails = passes, fails

    def run(self, batch: Batch, caches: Sequence[Cache], **options: Any) -> HeadOutput:
        """Run a pass."""
        self.rows.append(len(batch))
        output = self._passes.run(batch, caches, **options)
        if len(self.rows) > self._fails:
            raise KeyboardInterrupt
        return output


@pytest.mark.parametrize("make", [IN_CORE])
def test_a_level_of_a_tree_is_one_pass_over_its_own_rows(make: Ready) -> None:
    """Ancestors of chosen nodes were once run again in every level, beside them."""
    head, embedding = made(), torch.zeros(VOCABULARY, HIDDEN)
    prepared = make(head, embedding)
    prepared.passes = counting = Counting(prepared.passes)
    reader, text = HeadReader(prepared), Text(head, embedding, 4)
    own = reader.begin(text.tokens)
    reader.take(own, text.states[: len(text.tokens) - 1])
    branches = Branches([1, 2, 3, 4, 5, 6], [-1, -1, 0, 1, 2, 3])
    for level in ([-1], [0, 1], [2, 3], [4, 5]):
        [logits] = reader.read([(own, branches, level)])
        for row, node in enumerate(level):
            assert torch.allclose(logits[row], text.slow(branches.text(node)), atol=1e-5)
    assert counting.rows == [len(text.tokens) - 1, 2, 2, 2]


@pytest.mark.parametrize("make", [IN_CORE])
def test_nodes_of_a_draft_that_was_interrupted_are_forgotten(make: Ready) -> None:
    head, embedding = made(), torch.zeros(VOCABULARY, HIDDEN)
    prepared = make(head, embedding)
    prepared.passes = Counting(prepared.passes, fails=2)
    reader, text = HeadReader(prepared), Text(head, embedding, 4)
    own = reader.begin(text.tokens)
    reader.take(own, text.states[: len(text.tokens) - 1])
    reader.read([(own, Branches(), [-1])])
    reader.read([(own, Branches([1], [-1]), [0])])
    with pytest.raises(KeyboardInterrupt):
        reader.read([(own, Branches([1, 2], [-1, 0]), [1])])
    own.rewind()
    prepared.passes._fails = 100
    other = Branches([7, 8], [-1, 0])
    for node in (0, 1):
        [logits] = reader.read([(own, other, [node])])
        assert torch.allclose(logits[0], text.slow(other.text(node)), atol=1e-5)


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
