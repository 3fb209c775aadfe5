"""Drafting with a model: chains as long as they pay, every token run once, the law of what was drawn."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from outrider.loop.draft.base import Ask
from outrider.loop.draft.lm import ModelDrafter, relative_cost
from outrider.loop.draft.worth import worth_a_node, worth_a_pass
from outrider.models.base import Batch
from outrider.models.toy import ToyCache, ToyTarget
from outrider.sampling.keyed import SharedDraws
from outrider.sampling.params import SamplingParams

VOCAB = 8
GREEDY = SamplingParams()
SAMPLED = SamplingParams(temperature=1.0, seed=1)


class Watched(ToyTarget):
    """Notes the position of every row it runs."""

    def __init__(self, vocab_size: int, seed: int = 0) -> None:
        super().__init__(vocab_size, seed=seed)
        self.positions: list[int] = []

    def forward(self, batch: Batch, caches) -> torch.Tensor:  # type: ignore[no-untyped-def]
        self.positions += batch.positions
        return super().forward(batch, caches)


def ask(drafter: ModelDrafter, tokens: list[int], params: SamplingParams, budget: int = 6) -> Ask:
    state = drafter.open(tokens)
    return Ask(state, tokens, budget, False, params, SharedDraws(1, 0, len(tokens)))


def chances(model: ToyTarget, tokens: list[int], drafted: tuple[int, ...]) -> list[float]:
    """Return the probability of the most likely token before each drafted one."""
    return [float(max(model.law([*tokens, *drafted[:depth]]))) for depth in range(len(drafted))]


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("cost", [0.01, 0.05, 0.1])
def test_a_chain_ends_where_another_draft_pass_no_longer_pays(params: SamplingParams, cost: float) -> None:
    lengths = set()
    for seed in range(12):
        model = ToyTarget(VOCAB, seed=seed)
        drafter = ModelDrafter(model, VOCAB, cost)
        tokens = [seed % VOCAB, 3, 1]
        [tree] = drafter.propose([ask(drafter, tokens, params)])
        found = chances(model, tokens, tree.tokens)
        assert all(worth_a_pass(found[:depth], (), cost) for depth in range(len(found)))
        assert len(tree) == 6 or not worth_a_pass(found, (), cost)
        lengths.add(len(tree))
    assert len(lengths) > 1


def test_a_chain_ends_where_another_row_of_the_target_no_longer_pays() -> None:
    """With free draft passes, what is left is the best count of nodes for the chances found."""
    lengths = set()
    costs = (1.0, 1.2, 1.5, 2.0, 2.6, 3.3, 4.1)
    for seed in range(12):
        model = ToyTarget(VOCAB, seed=seed)
        drafter = ModelDrafter(model, VOCAB)
        tokens = [seed % VOCAB, 3, 1]
        asked = replace(ask(drafter, tokens, GREEDY), costs=costs)
        [tree] = drafter.propose([asked])
        found = chances(model, tokens, tree.tokens)
        assert all(worth_a_node(found[: depth + 1], costs, 0.0) for depth in range(len(found)))
        lengths.add(len(tree))
    assert len(lengths) > 1


def test_without_a_known_cost_the_whole_budget_is_drafted() -> None:
    drafter = ModelDrafter(ToyTarget(VOCAB), VOCAB)
    [tree] = drafter.propose([ask(drafter, [1, 2, 3], SAMPLED)])
    assert len(tree) == 6


def test_the_cost_is_the_share_of_the_target_s_bytes_that_the_draft_reads() -> None:
    def reads(count: int) -> SimpleNamespace:
        return SimpleNamespace(weight_bytes=count)

    assert relative_cost(reads(100), reads(400)) == 0.25  # type: ignore[arg-type]
    assert relative_cost(reads(900), reads(400)) == 1.0  # type: ignore[arg-type]
    assert relative_cost(ToyTarget(VOCAB), reads(400)) == 0.0  # type: ignore[arg-type]
    assert relative_cost(reads(100), ToyTarget(VOCAB)) == 0.0  # type: ignore[arg-type]


def test_a_sampled_node_carries_its_law_and_a_greedy_one_none() -> None:
    drafter = ModelDrafter(ToyTarget(VOCAB), VOCAB)
    [sampled] = drafter.propose([ask(drafter, [1, 2, 3], SAMPLED)])
    [greedy] = drafter.propose([ask(drafter, [1, 2, 3], GREEDY)])
    assert sampled.laws is not None
    assert len(sampled.laws) == len(sampled)
    assert all(law[token] > 0 for law, token in zip(sampled.laws, sampled.tokens, strict=True))
    assert greedy.laws is None
    [unread] = drafter.propose([replace(ask(drafter, [1, 2, 3], SAMPLED), wants_laws=False)])
    assert unread == replace(sampled, laws=None)


def test_no_token_is_run_twice_while_drafts_are_kept() -> None:
    model = Watched(VOCAB)
    drafter = ModelDrafter(model, VOCAB)
    tokens = [1, 2, 3]
    asked = ask(drafter, tokens, GREEDY, budget=4)
    for _ in range(5):
        [tree] = drafter.propose([Ask(asked.state, tokens, 4, False, GREEDY, asked.draws)])
        committed = [*tree.tokens, 0]
        drafter.extend(asked.state, committed, len(tree))
        tokens.extend(committed)
    assert model.positions == sorted(set(model.positions))
    assert model.positions == list(range(len(tokens) - 2))


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_after_every_step_the_draft_model_s_cache_holds_the_committed_text(params: SamplingParams) -> None:
    """A row too many stays unseen in the text: guesses only get worse, from the first rejection on."""
    chance = random.Random(5)
    model = ToyTarget(VOCAB, seed=1)
    drafter = ModelDrafter(model, VOCAB)
    tokens = [1, 2, 3]
    state = drafter.open(tokens)
    for _ in range(30):
        draws = SharedDraws(1, 0, len(tokens))
        [tree] = drafter.propose([Ask(state, tokens, chance.randint(1, 5), False, params, draws)])
        kept = chance.randint(0, len(tree))
        committed = [*tree.tokens[:kept], chance.randrange(VOCAB)]
        drafter.extend(state, committed, kept)
        tokens += committed
        assert isinstance(state.cache, ToyCache)
        assert state.tokens == tokens
        assert state.cache.tokens == tokens[: state.cache.length]
        assert state.cache.length >= len(tokens) - 2


def test_a_draft_ends_at_the_draft_model_s_own_context_limit() -> None:
    model = ToyTarget(VOCAB, context_limit=5)
    drafter = ModelDrafter(model, VOCAB)
    [tree] = drafter.propose([ask(drafter, [1, 2, 3], GREEDY)])
    assert len(tree) == 3
