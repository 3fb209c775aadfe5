"""Faults known from other engines, put into the loop one by one: a comparison finds each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache, partial
from typing import Any

import pytest

from conftest import VOCAB, run, toy_model
from matrix import EOS, SAMPLINGS, make_drafter
from outrider.errors import OutriderError
from outrider.loop.draft.base import Drafter
from outrider.models.toy import ToyTarget
from outrider.sampling.params import SamplingParams
from reference import reference_tokens, settings
from wrong_options import END_FAULTS, LOGPROB_FAULTS, TOKEN_FAULTS

Patch = pytest.MonkeyPatch
TARGET = ToyTarget(VOCAB, seed=1, zeros=0.0)
PROMPTS = [[0, 1, 2], [4, 5, 4, 5, 4, 5, 4]]
STOPS = ("ef", "cb", "a")


def params_of(sampling: str, **more: Any) -> SamplingParams:
    return settings(**{"ignore_eos": True, **SAMPLINGS[sampling], "max_tokens": 20, **more})


@cache
def expected(sampling: str) -> list[list[int]]:
    return [reference_tokens(TARGET, prompt, params_of(sampling), EOS) for prompt in PROMPTS]


def always_right() -> Drafter:
    """Return a drafter whose every guess is kept, so that runs are long."""
    return make_drafter("lm", TARGET, share=Fraction(1))


def same_tokens(samplings: Iterable[str]) -> bool:
    """Compare texts under each of these options with the slow reference."""
    for sampling in samplings:
        for drafter in (make_drafter("random trees", TARGET), always_right()):
            results = run(toy_model(TARGET, EOS), drafter, PROMPTS, params_of(sampling), budget=9)
            if [list(result.token_ids) for result in results] != expected(sampling):
                return False
    return True


def same_ends() -> bool:
    """Compare where texts end, by stop strings, end tokens and lengths, with a search of the whole text."""
    for seed in range(8):
        for min_tokens in (0, 6):
            options = {"temperature": 1.0, "seed": seed, "max_tokens": 6 + 2 * seed}
            params = settings(**options, stop=STOPS, min_tokens=min_tokens, stop_token_ids=(6,), logprobs=0)
            free = settings(**options, min_tokens=min_tokens, stop_token_ids=(6,))
            tokens = reference_tokens(TARGET, PROMPTS[0], free)
            text = "".join(chr(97 + token) for token in tokens)
            places = [text.find(stop, min_tokens) for stop in STOPS]
            ends = [(at + len(stop), at) for at, stop in zip(places, STOPS, strict=True) if at >= 0]
            wanted = tokens[: min(ends)[1]] if ends else tokens
            reason = "stop" if ends or tokens[-1] == 6 else "length"
            for drafter in (make_drafter("random trees", TARGET), always_right()):
                [result] = run(toy_model(TARGET), drafter, PROMPTS[:1], params, budget=12)
                found = [entry.token for entry in result.logprobs or ()]
                if (list(result.token_ids), found, result.finish_reason) != (wanted, wanted, reason):
                    return False
    return True


def same_logprobs() -> bool:
    """Compare logprobs with those of plain decoding."""
    params = params_of("everything", logprobs=2)
    plain = run(toy_model(TARGET, EOS), make_drafter("none", TARGET), PROMPTS, params)
    made = run(toy_model(TARGET, EOS), make_drafter("lm", TARGET), PROMPTS, params)
    return [result.logprobs for result in plain] == [result.logprobs for result in made]


def finds(check: Callable[[], bool]) -> bool:
    try:
        return not check()
    except OutriderError:
        return True


def test_without_a_fault_nothing_is_found() -> None:
    assert not finds(partial(same_tokens, SAMPLINGS))
    assert not finds(same_ends)
    assert not finds(same_logprobs)


@pytest.mark.parametrize("fault", TOKEN_FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_what_a_row_sees_is_found(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    sampling = TOKEN_FAULTS[fault]
    expected(sampling)  # before anything is changed
    fault(monkeypatch)
    assert finds(partial(same_tokens, [sampling]))


@pytest.mark.parametrize("fault", END_FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_where_a_text_ends_is_found(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    assert finds(same_ends)


@pytest.mark.parametrize("fault", LOGPROB_FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_logprobs_is_found(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    assert finds(same_logprobs)
