"""What passes drafted is kept for those who ask, agrees with the answer, and costs others nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from conftest import VOCAB, RandomTrees, toy_model
from outrider.engine.engine import Engine
from outrider.errors import OptionError
from outrider.models.toy import ToyTarget
from outrider.sampling.law import LogitLaws
from outrider.sampling.params import SamplingParams
from outrider.types import PassTrace, Trace

PROMPT = [1, 2, 3]
SAMPLED = SamplingParams(temperature=0.8, seed=3, max_tokens=150, ignore_eos=True, logprobs=0)


def run(params: SamplingParams, trace: Any) -> tuple[list[PassTrace], Any]:
    engine = Engine(toy_model(ToyTarget(VOCAB, seed=1)), RandomTrees(1), drafter_name="random", budget=4)
    request = engine.submit(PROMPT, params, trace=trace)
    passes: list[PassTrace] = []
    while engine.busy:
        passes += [each for event in engine.step() for each in event.chunk.passes]
    return passes, request.result


@pytest.mark.parametrize("trace", list(Trace))
def test_passes_emit_the_answer_and_say_how_likely_it_was(trace: Trace) -> None:
    passes, result = run(SAMPLED, trace)
    assert [token for each in passes for token in each.emitted] == list(result.token_ids)
    found = [chance for each in passes for chance in each.emitted_probabilities]
    assert found == pytest.approx([math.exp(entry.logprob) for entry in result.logprobs])
    assert sum(len(each.tokens) for each in passes) == result.speculation.drafted
    assert sum(len(each.path) for each in passes) == result.speculation.accepted > 0
    for each in passes:
        assert [each.tokens[node] for node in each.path] == list(each.emitted[: len(each.path)])
        assert list(each.authors) == [each.authors[0]] * len(each.tokens) if each.tokens else True
        assert (each.probabilities is not None) == (trace is Trace.TREES)
        if each.probabilities is not None:
            assert len(each.probabilities) == len(each.tokens)
            mine = [each.probabilities[node] for node in each.path]
            assert mine == pytest.approx(list(each.emitted_probabilities[: len(each.path)]))


def test_where_nobody_asks_nothing_is_kept_or_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> list[float]:
        raise AssertionError("nobody asked")

    monkeypatch.setattr(LogitLaws, "own", never)
    passes, result = run(SAMPLED, None)
    assert passes == []
    assert result.completion_tokens == 150


def test_a_trace_moves_no_token() -> None:
    texts = [run(SAMPLED, trace)[1].token_ids for trace in (None, *Trace)]
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("wrong", ["trees", True, 1])
def test_what_is_no_trace_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="trace"):
        run(SAMPLED, wrong)
