"""Drafting for oneself: who drafts when, one pass for all, sets of layers that change between requests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conftest import VOCAB, plain_tokens, run, toy_model
from outrider.bench.audit import loop_checks
from outrider.errors import CapabilityError, OptionError
from outrider.loop.draft.base import Ask
from outrider.loop.draft.layerskip import LayerSkipDrafter
from outrider.loop.draft.skip_options import parse_layers
from outrider.loop.draft.skip_search import Skips
from outrider.models.base import Batch
from outrider.models.toy import ToyTarget
from outrider.sampling.keyed import SharedDraws
from outrider.sampling.params import SamplingParams

GREEDY = SamplingParams()


class Watched(ToyTarget):
    """Notes the layers, sequences and first token of every pass, as far as it left layers out."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(VOCAB, seed=seed)
        self.partial: list[tuple[tuple[int, ...], int]] = []

    def run(self, batch: Batch, caches, *, layers=None, captured=()):  # type: ignore[no-untyped-def]
        if layers is not None:
            self.partial.append((tuple(layers), len(caches)))
        return super().run(batch, caches, layers=layers, captured=captured)


def ask(target: ToyTarget, drafter: LayerSkipDrafter, text: list[int], held: int, budget: int = 4) -> Ask:
    """Ask for a draft after `text`, of which the cache holds the first `held` tokens."""
    cache = target.new_cache()
    cache.tokens = text[:held]
    return Ask(drafter.open(text), text, budget, False, GREEDY, SharedDraws(1, 0, len(text)), cache=cache)


def test_one_partial_pass_a_level_serves_all_sequences() -> None:
    target = Watched()
    drafter = LayerSkipDrafter.build(target, None, {"skip": "1"})
    texts = [[1, 2, 3], [4, 5, 6, 7, 0], [2]]
    trees = drafter.propose([ask(target, drafter, text, len(text) - 1) for text in texts])
    assert [len(tree) for tree in trees] == [4, 4, 4]
    assert target.partial == [((0, 2), 3)] * 4


def test_nothing_is_drafted_beside_a_prompt_that_is_still_to_be_read() -> None:
    target = Watched()
    drafter = LayerSkipDrafter.build(target, None, {"skip": "1"})
    text = [1, 2, 3, 4] * 6
    trees = drafter.propose([ask(target, drafter, text, held) for held in (0, 15, 22, 23)])
    assert [len(tree) for tree in trees] == [0, 0, 0, 4]
    assert {count for _, count in target.partial} == {1}


def test_a_long_prompt_s_first_token_comes_without_a_partial_pass_and_the_rest_with() -> None:
    target = Watched()
    drafter = LayerSkipDrafter.build(target, None, {"skip": "1"})
    prompt = [1, 2, 3, 4] * 6
    [result] = run(toy_model(target), drafter, [prompt], SamplingParams(max_tokens=30, ignore_eos=True))
    assert list(result.token_ids) == plain_tokens(target, prompt, SamplingParams(), 30)
    assert result.speculation.accepted > 0


@pytest.mark.parametrize(
    ("text", "layers"),
    [("3", (3,)), ("8-14,20", (*range(8, 15), 20)), ("2, 0-1,1", (0, 1, 2)), ("none", ())],
)
def test_a_list_of_layers_is_read(text: str, layers: tuple[int, ...]) -> None:
    assert parse_layers(text) == layers


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"skip": "1-"}, "8-14,20"),
        ({"skip": "2-1"}, "8-14,20"),
        ({"skip": "1,,2"}, "8-14,20"),
        ({"skip": "3"}, "layers are 0 to 2"),
        ({"skip": "0-2"}, "all 3 layers"),
        ({"skip": "1", "adapt": True}, "leave 'skip' out"),
        ({"skip": "1", "search_passes": 7}, "leave 'skip' out"),
        ({"search_passes": 0}, "at least 1"),
        ({"skip": "1", "width": 2, "tree": "2,1"}, "layerskip options 'width' and 'tree'"),
        ({"skpi": "1"}, "skpi"),
        ({}, "skip=8-14,20"),
    ],
)
def test_options_that_cannot_be_are_refused_with_what_to_do(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        LayerSkipDrafter.build(ToyTarget(VOCAB), None, options)


def test_a_target_that_cannot_leave_layers_out_is_refused() -> None:
    whole: Any = SimpleNamespace(vocab_size=VOCAB, context_limit=64, can_branch=False)
    with pytest.raises(CapabilityError, match="lean decoder"):
        LayerSkipDrafter.build(whole, None, {"skip": "1"})


@pytest.mark.parametrize("options", [{"skip": "8-14,20"}, {"adapt": True, "tree": "2,1"}])
def test_an_audit_enumerates_the_loop_on_small_models_with_layers_of_their_own(
    options: dict[str, Any],
) -> None:
    params = SamplingParams(temperature=1.0)
    checks = list(loop_checks("layerskip", "recursive", None, params, options=options, worlds=1))
    assert [check.detail for check in checks if not check.passed] == []
    assert checks
    assert not any(", 0 nodes drafted" in check.detail for check in checks)


SETS = (Skips((1,), 0.9, 0.8), Skips((0, 1), 0.9, 0.5))
"""Two sets, the second of which looks far better than it is."""


def test_where_sets_may_change_a_request_begins_with_what_was_accepted_by_then() -> None:
    target = Watched()
    drafter = LayerSkipDrafter(target, SETS, adapt=True)
    running = drafter.open([1, 2], "one")
    assert running.set == 1
    for _ in range(200):
        [tree] = drafter.propose([ask_of(target, running)])
        drafter.extend(running, [(tree.tokens[0] + 1) % VOCAB], 0)
        running.inner.tokens[2:] = []
    assert running.set == 1
    assert drafter.open([1, 2], "one").set == 0
    assert drafter.open([1, 2], "another").set == 1


def test_where_sets_may_not_change_every_request_begins_with_the_best_one() -> None:
    target = Watched()
    drafter = LayerSkipDrafter(target, SETS)
    state = drafter.open([1, 2])
    for _ in range(200):
        [tree] = drafter.propose([ask_of(target, state)])
        drafter.extend(state, [(tree.tokens[0] + 1) % VOCAB], 0)
        state.inner.tokens[2:] = []
    assert drafter.open([1, 2]).set == 1


def test_requests_that_leave_out_different_layers_share_a_batch() -> None:
    target = Watched()
    drafter = LayerSkipDrafter(target, SETS, adapt=True)
    asks = [ask(target, drafter, [1, 2, 3], 2) for _ in range(3)]
    asks[1].state.set, asks[1].state.inner = 0, drafter._drafters[0].open([1, 2, 3])
    trees = drafter.propose(asks)
    assert [len(tree) for tree in trees] == [4, 4, 4]
    assert trees[0] == trees[2] != trees[1]
    assert target.partial == [((0, 2), 1)] * 4 + [((2,), 2)] * 4


def test_forced_tokens_say_nothing_about_a_set() -> None:
    target = Watched()
    drafter = LayerSkipDrafter(target, SETS, adapt=True)
    state = drafter.open([1, 2])
    for _ in range(300):
        made = ask_of(target, state)
        [tree] = drafter.propose([Ask(**{**fields(made), "forced": (5, 6)})])
        assert tree.tokens[:2] == (5, 6)
        drafter.extend(state, [5, 6, (tree.tokens[2] + 1) % VOCAB], 2)
        state.inner.tokens[2:] = []
    assert drafter.open([1, 2]).set == 0


def ask_of(target: ToyTarget, state: Any) -> Ask:
    cache = target.new_cache()
    cache.tokens = [1]
    return Ask(state, [1, 2], 4, False, GREEDY, SharedDraws(1, 0, 2), cache=cache)


def fields(made: Ask) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.__dataclass_fields__}
