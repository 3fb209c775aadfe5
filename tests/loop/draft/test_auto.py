"""The drafter that chooses among others for every draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from outrider.errors import OptionError
from outrider.loop.draft.auto import AutoDrafter
from outrider.loop.draft.base import Ask
from outrider.loop.draft.none import NoDrafter
from outrider.models.toy import ToyTarget
from outrider.sampling.keyed import KeyedSource
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree


class Part(NoDrafter):
    """Drafts one token over and over, as sure as it is told to be."""

    speculates = weighs_costs = True

    def __init__(
        self, token: int, chances: Sequence[float], has_law: bool = False, cost: float = 0.0
    ) -> None:
        self.token, self.chances, self.cost = token, chances, cost
        self.has_law = has_law
        self.asked = 0
        self.heard: list[int] = []

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        self.asked += len(asks)
        return [DraftTree.chain([self.token] * len(self.chances), chances=self.chances) for _ in asks]

    def extend(self, state: Any, tokens: Sequence[int], kept: int) -> None:
        self.heard += tokens


def ask(state: Any, costs: Sequence[float] = ()) -> Ask:
    draws = KeyedSource(0, 0)
    params = SamplingParams()
    from outrider.loop.accept.greedy import Greedy

    return Ask(state, [1, 2], 8, True, params, draws.for_draft(Greedy(), 2), costs=costs)


def chosen(parts: Sequence[Part], costs: Sequence[float] = (), times: int = 1) -> list[int]:
    """Return the tokens that were drafted, one for each time."""
    drafter = AutoDrafter(parts)
    state = drafter.open([1, 2])
    trees = [drafter.propose([ask(state, costs)])[0] for _ in range(times)]
    return [tree.tokens[0] if len(tree) else -1 for tree in trees]


def test_the_draft_that_promises_most_is_taken() -> None:
    assert chosen([Part(5, [0.3, 0.1]), Part(6, [0.5])]) == [6]
    assert chosen([Part(5, [0.6, 0.1]), Part(6, [0.5])]) == [5]


def test_what_its_nodes_and_its_own_passes_cost_counts_against_a_draft() -> None:
    costs = [1.0, 1.1, 1.6]
    assert chosen([Part(5, [0.5, 0.4]), Part(6, [0.6])], costs) == [6]
    assert chosen([Part(5, [0.5]), Part(6, [0.6], cost=0.2)], costs) == [5]


def test_a_draft_that_costs_more_than_it_promises_is_not_made() -> None:
    assert chosen([Part(5, [0.05])], [1.0, 1.1]) == [-1]


def test_the_next_is_not_asked_while_the_first_promises_more_than_it_usually_brings() -> None:
    first, second = Part(5, [0.9, 0.9]), Part(6, [0.2])
    assert chosen([first, second], times=20) == [5] * 20
    assert first.asked == 20
    assert second.asked == 0
    weaker = Part(5, [0.3])
    chosen([weaker, second], times=60)
    assert 5 < second.asked < 40


def test_what_was_drawn_stands_once_it_was_asked_for() -> None:
    assert chosen([Part(5, [0.9]), Part(6, [0.1], has_law=True)]) == [6]


def test_all_parts_hear_what_was_committed() -> None:
    parts = [Part(5, [0.9]), Part(6, [0.1])]
    drafter = AutoDrafter(parts)
    state = drafter.open([1])
    drafter.extend(state, [3, 4], 1)
    assert [part.heard for part in parts] == [[3, 4]] * 2


def test_there_is_nothing_to_set() -> None:
    with pytest.raises(OptionError, match="auto"):
        AutoDrafter.build(ToyTarget(8), None, {"width": 2})
