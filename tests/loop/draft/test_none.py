from __future__ import annotations

from typing import Any, cast

import pytest

from outrider.errors import OptionError
from outrider.loop.draft.base import Ask
from outrider.loop.draft.none import NoDrafter
from outrider.registry import DRAFTERS

TARGET = cast(Any, None)


def ask(state: object) -> Ask:
    return Ask(state, (1, 1, 1, 1), budget=8, branch=True, params=cast(Any, None), draws=cast(Any, None))


def test_it_never_drafts_whatever_the_budget() -> None:
    drafter = NoDrafter.build(TARGET, None, {})
    state = drafter.open((1, 1, 1))
    trees = drafter.propose([ask(state), ask(state)])
    assert [len(tree) for tree in trees] == [0, 0]
    drafter.extend(state, (1,), 0)
    assert len(drafter.propose([ask(state)])[0]) == 0
    drafter.close(state)


def test_it_refuses_options_because_it_has_none() -> None:
    with pytest.raises(OptionError, match="max_nodes"):
        NoDrafter.build(TARGET, None, {"max_nodes": 3})


def test_it_is_registered_by_its_name() -> None:
    assert DRAFTERS.load(NoDrafter.name) is NoDrafter
