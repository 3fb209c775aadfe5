"""What a step leaves behind: a cache that follows the committed text."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from conftest import VOCAB, run, toy_model
from matrix import make_drafter
from outrider.engine.request import Request
from outrider.engine.running import Running
from outrider.models.toy import ToyCache, ToyTarget
from reference import settings

ENDS: dict[str, dict[str, Any]] = {
    "an end token": {"stop_token_ids": (2,)},
    "a stop text": {"stop": ("ef", "cb", "a")},
    "a length": {"max_tokens": 13},
}


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("drafter", ["lm", "lm, tree 3,2,1", "random trees"])
def test_the_cache_holds_all_tokens_but_the_last_wherever_a_stop_cuts_the_run(
    drafter: str, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever takes a text up again reads on from there."""
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    ended: list[tuple[list[int], list[int]]] = []
    release = Running.release

    def watched(self: Running, request: Request) -> None:
        cache = request.sequence.cache
        assert isinstance(cache, ToyCache)
        assert cache.pending == []
        ended.append((list(request.sequence.tokens), list(cache.tokens)))
        release(self, request)

    monkeypatch.setattr(Running, "release", watched)
    cut_inside = 0
    for seed in range(12):
        params = settings(**{"temperature": 1.0, "seed": seed, "max_tokens": 40, **ENDS[ends]})
        made = make_drafter(drafter, target, share=Fraction(1))
        [result] = run(toy_model(target), made, [[0, 1, 2]], params, budget=9)
        tokens, held = ended.pop()
        assert held == tokens[:-1]
        cut_inside += result.speculation.accepted == result.speculation.tokens
    assert cut_inside or drafter == "random trees" or ends == "a length", "some runs were cut inside"
