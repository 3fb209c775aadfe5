"""What was drafted, and what of it came true, is told of every request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import VOCAB, RandomTrees, plain_tokens, toy_model
from outrider.bench.traces import TracedDraft, TracingDrafter, came_true
from outrider.bench.traffic import Depths, Load, drive
from outrider.engine.engine import Engine
from outrider.models.toy import ToyTarget
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree

TARGET = ToyTarget(VOCAB, seed=1)
PROMPTS = [[1, 2, 3], [4, 5, 4, 5, 4], [7, 7, 7, 7]]
PARAMS = SamplingParams(max_tokens=24, temperature=1.0, seed=3)


def test_a_node_came_true_where_the_text_goes_through_it_and_all_before_it() -> None:
    tree = DraftTree((5, 6, 6, 9, 7), (-1, -1, 0, 1, 2))
    assert came_true(tree, [3, 5, 6, 7], at=1) == (True, False, True, False, True)
    assert came_true(tree, [3, 6, 9], at=1) == (False, True, False, True, False)
    assert came_true(tree, [5], at=0) == (True, False, False, False, False)
    assert came_true(DraftTree((5, 5, 6, 6), (-1, -1, 1, 0)), [5, 6], at=0) == (True, False, False, True)


chances = st.lists(st.tuples(st.integers(0, 1000), st.booleans()), max_size=6)


@given(st.integers(0, 10**6), chances, st.booleans())
def test_a_draft_is_read_as_it_was_written(at: int, nodes: list[tuple[int, bool]], known: bool) -> None:
    sure = tuple(chance / 1000 for chance, _ in nodes) if known or not nodes else None
    draft = TracedDraft(at, sure, tuple(right for _, right in nodes))
    assert TracedDraft.read(draft.written()) == draft


@pytest.mark.parametrize("text", ["", "x 0.5", "3 maybe+"])
def test_what_is_no_draft_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"could not|invalid"):
        TracedDraft.read(text)


def test_every_ask_is_traced_and_what_was_kept_of_it_came_true() -> None:
    traced = TracingDrafter(RandomTrees(3))
    engine = Engine(toy_model(TARGET), traced, drafter_name="random", budget=6)
    run = drive(engine, PROMPTS, PARAMS, Load(clients=2))
    answers = [answer.result.token_ids for answer in run.answers]
    traces = traced.traces(answers)
    assert [(t.prompt_tokens, t.tokens) for t in traces] == [(len(p), 24) for p in PROMPTS]
    for trace, answer, prompt in zip(traces, run.answers, PROMPTS, strict=True):
        assert list(answer.result.token_ids) == plain_tokens(TARGET, prompt, PARAMS, 24)
        told = answer.result.speculation
        assert sum(len(draft.right) for draft in trace.drafts) == told.drafted
        assert sum(sum(draft.right) for draft in trace.drafts) == told.accepted > 0
        assert [draft.at for draft in trace.drafts] == sorted(draft.at for draft in trace.drafts)
    assert traced.asks == sum(len(trace.drafts) for trace in traces)
    assert traced.answered == sum(len(draft.right) > 0 for trace in traces for draft in trace.drafts)
    assert traced.seconds > 0


def test_drafts_are_counted_by_depth_as_reached_tried_and_kept() -> None:
    depths = Depths()
    for reached, kept in ((3, 1), (1, 1), (0, 0), (2, 0)):
        depths.add(reached, kept)
    assert (depths.reached, depths.tried, depths.kept) == ([3, 2, 1], [3, 1, 0], [2, 0, 0])
