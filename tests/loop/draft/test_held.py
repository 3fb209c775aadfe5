"""A draft model over trees: right logits whatever is chosen, and a cache that follows the committed text."""

from __future__ import annotations

import random

import torch
from hypothesis import given
from hypothesis import strategies as st

from outrider.loop.draft.held import Branches, Held, TreeReader
from outrider.models.toy import ToyCache, ToyTarget
from outrider.sampling.law import law
from outrider.sampling.params import SamplingParams

VOCAB = 6
SAMPLED = SamplingParams(temperature=1.0)


def check(model: ToyTarget, held: Held, branches: Branches, chosen: list[int], logits: torch.Tensor) -> None:
    for row, node in enumerate(chosen):
        exact = model.law([*held.tokens, *branches.text(node)])
        assert torch.allclose(law(logits[row], SAMPLED), torch.tensor([float(p) for p in exact]), atol=1e-6)


@given(st.integers(0, 10_000))
def test_any_nodes_of_any_trees_are_read_right_step_after_step(seed: int) -> None:
    """Random trees of two sequences grow, are cut, and are committed along any branch, or along none."""
    chance = random.Random(seed)
    model = ToyTarget(VOCAB, seed=1)
    reader = TreeReader(model, VOCAB)
    helds = [Held(model.new_cache(), [1, 2, 3]), Held(model.new_cache(), [4])]
    for _ in range(4):
        trees = [Branches(), Branches()]
        unread: list[list[int]] = [[-1], [-1]]
        for _ in range(chance.randint(1, 4)):
            wants = []
            for held, branches, left in zip(helds, trees, unread, strict=True):
                wants.append(
                    (held, branches, sorted(chance.sample(left, min(len(left), chance.randint(1, 3)))))
                )
            for (held, branches, chosen), logits, left in zip(wants, reader.read(wants), unread, strict=True):
                check(model, held, branches, chosen, logits)
                for node in chosen:
                    left.remove(node)
                    for token in chance.sample(range(VOCAB), 2):
                        left.append(len(branches.tokens))
                        branches.tokens.append(token)
                        branches.parents.append(node)
        for held, branches in zip(helds, trees, strict=True):
            node = chance.randrange(-1, len(branches.tokens))
            held.commit([*branches.text(node)[: chance.randint(0, 4)], chance.randrange(VOCAB)])
            cache = held.cache
            assert isinstance(cache, ToyCache)
            assert cache.tokens == held.tokens[: cache.length]
            assert cache.length < len(held.tokens)


def test_what_all_chosen_nodes_share_is_run_once() -> None:
    ran: list[int] = []

    class Watched(ToyTarget):
        def forward(self, batch, caches):  # type: ignore[no-untyped-def]
            ran.append(len(batch))
            return super().forward(batch, caches)

    model = Watched(VOCAB)
    reader, held, branches = TreeReader(model, VOCAB), Held(model.new_cache(), [1, 2, 3]), Branches()
    chosen = -1
    for token in range(4):
        reader.read([(held, branches, [chosen])])
        branches.tokens.append(token)
        branches.parents.append(chosen)
        chosen = token
    assert ran == [3, 1, 1, 1]
    held.commit([0, 1, 5])
    reader.read([(held, Branches(), [-1])])
    assert ran[-1] == 1, "rows of the kept path stay"


def test_a_long_text_is_read_in_pieces() -> None:
    model = ToyTarget(VOCAB)
    held = Held(model.new_cache(), [token % VOCAB for token in range(1300)])
    [logits] = TreeReader(model, VOCAB).read([(held, Branches(), [-1])])
    check(model, held, Branches(), [-1], logits)
