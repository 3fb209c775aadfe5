"""What options do to the logits of a row, against slow references and against transformers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation import logits_process as theirs

from outrider.errors import DeadEndError, NumericsError, OptionError
from outrider.sampling.constraint import Constraint
from outrider.sampling.history import NGrams, Tally
from outrider.sampling.law import LogitLaws, law
from outrider.sampling.params import SamplingParams
from outrider.sampling.processing import Processing, processing_of
from reference import reference_row

V = 12
TOKENS = st.lists(st.integers(0, V - 1), max_size=30)


def made(params: SamplingParams, tokens: list[int], prompt: int = 0, **more: Any) -> Processing:
    found = processing_of(params, tokens, prompt, **more)
    assert found is not None
    return found


def logits(seed: int) -> torch.Tensor:
    return 2 * torch.randn(V, generator=torch.Generator().manual_seed(seed))


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "repetition_penalty": st.sampled_from([0.5, 1.3, 2.0]),
        "presence_penalty": st.sampled_from([-1.5, 0.4, 2.0]),
        "frequency_penalty": st.sampled_from([-0.3, 0.7]),
        "no_repeat_ngram_size": st.integers(2, 4),
        "logit_bias": st.dictionaries(st.integers(0, V - 1), st.floats(-5, 5, width=32), min_size=1),
        "allowed_tokens": st.sets(st.integers(0, V - 1), min_size=6),
        "min_tokens": st.integers(1, 20),
    },
)


@settings(deadline=None)
@given(options=OPTIONS, prompt=TOKENS, output=TOKENS, cut=st.integers(0, 30), seed=st.integers(0, 99))
def test_a_row_is_that_of_the_slow_reference_however_much_of_its_prefix_is_drafted(
    options: dict[str, Any], prompt: list[int], output: list[int], cut: int, seed: int
) -> None:
    params = SamplingParams(**options)
    words = [(1,), (2, 3), (4, 4, 4)]
    cut = min(cut, len(output))
    tokens = [*prompt, *output[:cut]]
    processing = made(params, tokens, len(prompt), end_tokens=(5, 0), banned_sequences=words)
    row = logits(seed)
    expected = reference_row(row.tolist(), params, prompt, output, (5, 0), words)
    if max(expected) == -torch.inf:
        with pytest.raises(DeadEndError):
            processing.row(row, output[cut:])
        return
    found = processing.row(row, output[cut:])
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-5, atol=1e-5)
    # The same prefix gives the same bits, drafted or committed, and drafts in between leave no trace.
    with suppress(DeadEndError):
        processing.row(row, [1, 2, 3, 6, 6])
    tokens += output[cut:]
    assert torch.equal(processing.row(row, ()), found)


@pytest.mark.parametrize("penalty", [0.7, 1.0001, 1.9])
@pytest.mark.parametrize("seed", range(5))
def test_repetition_penalty_is_that_of_transformers(penalty: float, seed: int) -> None:
    text = [random.Random(seed).randrange(V) for _ in range(9)]
    row = logits(seed)
    expected = theirs.RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([text]), row[None].clone())[0]
    processing = made(SamplingParams(repetition_penalty=penalty), text[:5])
    assert torch.equal(processing.row(row, text[5:]), expected)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_no_repeat_ngram_size_is_that_of_transformers(size: int, seed: int) -> None:
    text = [random.Random(seed).randrange(4) for _ in range(14)]
    row = logits(seed)
    expected = theirs.NoRepeatNGramLogitsProcessor(size)(torch.tensor([text]), row[None])[0]
    for drafted in (0, 1, 5, 14):
        committed = text[: len(text) - drafted]
        processing = made(SamplingParams(no_repeat_ngram_size=size), committed)
        assert torch.equal(processing.row(row, text[len(committed) :]), expected)


@pytest.mark.parametrize("mass", [0.05, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("seed", range(5))
def test_typical_p_is_that_of_transformers(mass: float, seed: int) -> None:
    row = 2 * torch.randn(200, generator=torch.Generator().manual_seed(seed))
    expected = theirs.TypicalLogitsWarper(mass)(torch.zeros(1, 0, dtype=torch.long), row[None])[0].softmax(-1)
    torch.testing.assert_close(law(row, SamplingParams(temperature=1.0, typical_p=mass)), expected)


@pytest.mark.parametrize("min_p", [0.02, 0.3, 1.0])
def test_min_p_top_k_and_top_p_are_those_of_transformers(min_p: float) -> None:
    row, no_ids = logits(3), torch.zeros(1, 0, dtype=torch.long)
    chain = [theirs.TopKLogitsWarper(7), theirs.TopPLogitsWarper(0.9), theirs.MinPLogitsWarper(min_p)]
    expected = row[None].clone()
    for warper in chain:
        expected = warper(no_ids, expected)
    params = SamplingParams(temperature=1.0, top_k=7, top_p=0.9, min_p=min_p)
    torch.testing.assert_close(law(row, params), expected[0].softmax(-1))


def test_typical_p_acts_on_what_the_other_filters_left() -> None:
    row = torch.tensor([0.5, 0.2, 0.15, 0.1, 0.05]).log()
    kept = law(row, SamplingParams(temperature=1.0, top_k=3, typical_p=0.2)) > 0
    # Of [.59, .24, .18], entropy 0.96 nats, the second (1.45) is farther off than the first (0.53).
    assert kept.tolist() == [True, False, False, False, False]


def test_options_that_are_off_make_no_processing_at_all() -> None:
    params = SamplingParams(temperature=0.7, top_k=3, top_p=0.5, typical_p=0.5, stop=("a",), min_tokens=3)
    assert processing_of(params, [1, 2], 1) is None
    assert processing_of(params, [1, 2], 1, end_tokens=(4,)) is not None


def test_nothing_brings_a_forbidden_token_back() -> None:
    def push(prefix: Sequence[int], row: torch.Tensor) -> torch.Tensor:
        return torch.full_like(row, 1e30)

    params = SamplingParams(
        banned_tokens=(1,), logit_bias={1: 1e30, 2: 1e30}, logits_processors=push, min_tokens=1
    )
    row = made(params, [0], 1, end_tokens=(2,), banned_sequences=((3,),)).row(logits(1), ())
    assert [token for token in range(V) if row[token] == -torch.inf] == [1, 2, 3]


def test_a_function_sees_each_row_s_own_prefix_once_and_only_where_it_is_asked_for() -> None:
    seen: list[list[int]] = []

    def note(prefix: Sequence[int], row: torch.Tensor) -> torch.Tensor:
        seen.append(list(prefix))
        return row

    params = SamplingParams(temperature=1.0, logits_processors=note)
    paths = [(), (4,), (4, 5), (6,)]
    before = torch.randn(4, V)
    rows = before.clone()
    laws = LogitLaws(rows, params, made(params, [1, 2, 3], 2), paths.__getitem__)
    assert torch.equal(laws[2], law(before[2], params))
    assert laws.mode(2) == int(before[2].argmax())
    assert laws.confidence(2) > 0
    laws[0]
    assert seen == [[1, 2, 3, 4, 5], [1, 2, 3]]
    assert torch.equal(rows, before)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (None, OptionError, "'wrong' gave None"),
        (torch.zeros(V + 1), OptionError, r"gave a tensor of shape \[13\]; it must .* shape \[12\]"),
        (torch.full((V,), torch.nan), OptionError, "nan as their maximum"),
        (torch.full((V,), torch.inf), OptionError, "inf as their maximum"),
        (torch.full((V,), -torch.inf), DeadEndError, "logits_processors exclude all"),
    ],
)
def test_a_function_that_gives_no_logits_is_named(answer: Any, error: type[Exception], words: str) -> None:
    def wrong(prefix: Sequence[int], row: torch.Tensor) -> Any:
        return answer

    laws = LogitLaws(
        torch.zeros(1, V), SamplingParams(), made(SamplingParams(logits_processors=wrong), [1], 1)
    )
    with pytest.raises(error, match=words):
        laws.mode(0)


def test_a_function_may_answer_in_another_precision() -> None:
    params = SamplingParams(logits_processors=lambda prefix, row: row.double() * 2)
    row = made(params, [1], 1).row(logits(1), ())
    assert row.dtype == torch.float32
    assert torch.equal(row, logits(1) * 2)


def test_damaged_logits_are_told_from_what_options_excluded() -> None:
    params = SamplingParams(banned_tokens=(1,))
    rows = torch.zeros(2, V)
    rows[1, 4] = torch.nan
    laws = LogitLaws(rows, params, made(params, [1], 1))
    assert laws.mode(0) == 0
    with pytest.raises(NumericsError, match="the model's logits"):
        laws.mode(1)


class Alternating(Constraint):
    """After an even token an odd one, and the other way round; moves on with committed tokens only."""

    def __init__(self) -> None:
        self.committed: list[int] = []

    def commit(self, tokens: Sequence[int]) -> None:
        self.committed += tokens

    def mask(self, path: Sequence[int], vocab_size: int) -> torch.Tensor | None:
        text = [*self.committed, *path]
        if not text:
            return None
        return torch.arange(vocab_size) % 2 != text[-1] % 2


def test_a_constraint_masks_each_row_by_its_path_and_is_told_committed_tokens_once() -> None:
    constraint, tokens = Alternating(), [5, 5]
    processing = made(SamplingParams(), tokens, 2, constraint=constraint)
    row = torch.zeros(V)
    assert torch.equal(processing.row(row, ()), row)
    assert (processing.row(row, (3,)) == 0).nonzero().flatten().tolist() == [0, 2, 4, 6, 8, 10]
    tokens += [3, 4]
    assert (processing.row(row, ()) == 0).nonzero().flatten().tolist() == [1, 3, 5, 7, 9, 11]
    assert (processing.row(row, (7,)) == 0).nonzero().flatten().tolist() == [0, 2, 4, 6, 8, 10]
    assert constraint.committed == [3, 4]


@settings(deadline=None)
@given(text=st.lists(st.integers(0, 200), max_size=300), path=st.lists(st.integers(0, 200), max_size=9))
def test_a_tally_counts_what_text_and_path_hold(text: list[int], path: list[int]) -> None:
    grown: list[int] = []
    tally = Tally(grown, 2)
    for start in range(0, len(text), 37):
        grown += text[start : start + 37]
        ids, counts = tally.after(path)
        whole = [*grown[2:], *path]
        found = dict(zip(ids.tolist(), counts.tolist(), strict=True))
        assert found == {token: whole.count(token) for token in set(whole)}


@settings(deadline=None)
@given(text=st.lists(st.integers(0, 2), max_size=12), path=st.lists(st.integers(0, 2), max_size=5))
def test_no_run_is_repeated_whether_it_lies_in_the_text_or_on_the_path(
    text: list[int], path: list[int]
) -> None:
    for size in (1, 2, 3, 4):
        whole = [*text, *path]
        runs = {tuple(whole[i : i + size]) for i in range(len(whole) - size + 1)}
        expected = {t for t in range(3) if tuple([*whole, t][-size:]) in runs and len(whole) >= size - 1}
        assert NGrams(text, size).repeating(path) == expected
