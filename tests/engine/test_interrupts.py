"""An interrupt may fall between any two lines of a step; what was committed is whole afterwards."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import outrider
from conftest import VOCAB, RandomTrees, plain_tokens, toy_model
from matrix import make_drafter
from outrider.cache.prefix import PrefixStore
from outrider.engine.engine import Engine
from outrider.engine.live import Stream
from outrider.loop.draft.base import Drafter
from outrider.models.toy import ToyCache, ToyTarget
from outrider.sampling.params import SamplingParams

PROMPT = [5, 4, 5, 4, 5, 4, 5]
"""With the first token, two pages of a toy: the next draft begins in the last slot of a page."""
SOURCE = str(Path(outrider.__file__).parent)


class Interrupter:
    """Raises KeyboardInterrupt before the n-th line that runs in the loop and the engine."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        return self.trace if name.startswith(SOURCE) and "toy.py" not in name else None

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.trace


def drafter_of(kind: str, target: ToyTarget) -> Drafter:
    if kind == "random trees":
        return RandomTrees(2)
    return make_drafter(kind, target, model=target)


@pytest.mark.parametrize("kind", ["lm", "layerskip", "random trees"])
def test_text_tokens_and_counters_agree_wherever_an_interrupt_falls(kind: str) -> None:
    target = ToyTarget(VOCAB, seed=1)
    params = SamplingParams(temperature=1.0, seed=5, max_tokens=7)
    expected = plain_tokens(target, PROMPT, params, 7)
    line, tracing = 0, sys.gettrace()
    while True:
        line += 1
        drafter = drafter_of(kind, target)
        stored = PrefixStore(ToyCache.page_slots, 10_000) if kind == "layerskip" else None
        engine = Engine(toy_model(target), drafter, drafter_name=kind, budget=3, prefixes=stored)
        stream = Stream(engine, engine.submit(PROMPT, params))
        interrupter = Interrupter(line)
        sys.settrace(interrupter)
        try:
            for _ in stream:
                pass
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(tracing)
        result = stream.close()
        tokens = list(result.token_ids)
        assert tokens == expected[: len(tokens)]
        assert result.text == "".join(chr(97 + token) for token in tokens)
        assert len(tokens) == len(result.origins) == result.speculation.tokens
        assert not engine.busy
        if stored is not None:  # a toy refuses pages that a draft wrote to
            assert len(PROMPT) // 4 * 4 <= stored.match([*PROMPT, *tokens, 0, 0, 0]) or not tokens
        if interrupter.left > 0:
            break
    assert line > 100
