"""Options that need the model to be checked or understood: refused before anything runs, or honoured."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from conftest import VOCAB, RandomTrees, run, toy_model
from outrider.engine.engine import Engine
from outrider.engine.options import banned_sequences
from outrider.errors import OptionError
from outrider.models.base import LoadedModel
from outrider.models.toy import ToyTarget, ToyTokenizer
from outrider.sampling.constraint import Constraint
from outrider.sampling.params import SamplingParams
from reference import reference_tokens, settings


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"logit_bias": {8: 1.0}}, r"logit_bias names token 8, .* \(0 to 7\)"),
        ({"allowed_tokens": (1, 9)}, "allowed_tokens names token 9"),
        ({"banned_tokens": (10,)}, "banned_tokens names token 10"),
        ({"stop_token_ids": (8,)}, "stop_token_ids names token 8"),
        ({"banned_words": ("  ",)}, "banned_words holds '  ', which has no tokens"),
        ({"min_tokens": 30, "max_tokens": None}, "has room for 29 more"),
    ],
)
def test_what_does_not_fit_the_model_is_refused_at_submission(options: dict[str, Any], words: str) -> None:
    drafter = RandomTrees(1)
    engine = Engine(toy_model(ToyTarget(VOCAB, context_limit=32)), drafter, drafter_name="random")
    with pytest.raises(OptionError, match=words):
        engine.submit([1, 2, 3], SamplingParams(**options))
    assert not engine.busy


class Words(ToyTokenizer):
    """A tokenizer in which a word after a space has a token of its own."""

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return [7] * special + ([6] if text.startswith(" ") else []) + super().encode(text)


def test_banned_words_are_looked_for_at_the_beginning_and_after_a_space() -> None:
    params = SamplingParams(banned_words=("ab", "c", "ab"))
    assert banned_sequences(params, Words(VOCAB)) == [(0, 1), (6, 0, 1), (2,), (6, 2)]


@pytest.mark.parametrize("drafter_seed", range(4))
@pytest.mark.parametrize("min_tokens", [1, 7, 40])
def test_end_tokens_wait_for_min_tokens_also_inside_an_accepted_run(
    min_tokens: int, drafter_seed: int
) -> None:
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    for seed in range(8):
        params = settings(
            temperature=1.0, min_tokens=min_tokens, stop_token_ids=(2,), seed=seed, ignore_eos=False
        )
        [result] = run(toy_model(target, (3,)), RandomTrees(drafter_seed), [[0, 1]], params, budget=12)
        assert list(result.token_ids) == reference_tokens(target, [0, 1], params, (3,))
        assert not {2, 3} & set(result.token_ids[:min_tokens])
        if result.finish_reason == "stop":
            assert result.completion_tokens > min_tokens


@pytest.mark.parametrize("min_tokens", [1, 3, 9, 30])
def test_a_stop_string_counts_only_where_it_begins_after_min_tokens(min_tokens: int) -> None:
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    stops = ("ef", "a", "gc")
    for seed in range(12):
        params = settings(temperature=1.0, seed=seed, stop=stops, min_tokens=min_tokens, max_tokens=30)
        free = settings(temperature=1.0, seed=seed, max_tokens=30)
        text = "".join(chr(97 + token) for token in reference_tokens(target, [0, 1], free))
        begins = [(text.find(stop, min_tokens) + len(stop), text.find(stop, min_tokens)) for stop in stops]
        found = [ends for ends in begins if ends[1] >= 0]
        expected = text[: min(found)[1]] if found else text
        for drafter in range(3):
            [result] = run(toy_model(target), RandomTrees(drafter), [[0, 1]], params, budget=9)
            assert result.text == expected
            assert result.finish_reason == ("stop" if found else "length")
            assert result.completion_tokens >= min_tokens


def test_a_stop_string_that_begins_with_the_last_byte_before_min_tokens_does_not_count() -> None:
    """The character belongs to the tokens it began with, so cutting it would leave too few tokens."""

    class Bytes(ToyTokenizer):
        def decode(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
            return bytes(b"\xc3\xa9"[token % 2] for token in tokens).decode("utf-8", errors="replace")

    model = LoadedModel("toy", ToyTarget(2, seed=1, zeros=0.0), Bytes(2))

    def alternate(prefix: Sequence[int], row: Any) -> Any:
        row[len(prefix) % 2] += 100
        return row

    for min_tokens in range(6):
        params = SamplingParams(logits_processors=alternate, stop="é", min_tokens=min_tokens, max_tokens=12)
        [result] = run(model, RandomTrees(1, vocab=2), [[0, 1]], params)
        assert result.text == "é" * ((min_tokens + 1) // 2)
        assert result.completion_tokens >= min_tokens


class OddAfterEven(Constraint):
    """A constraint that lets only tokens of the other parity follow."""

    def __init__(self) -> None:
        self.committed: list[int] = []

    def commit(self, tokens: Sequence[int]) -> None:
        self.committed += tokens

    def mask(self, path: Sequence[int], vocab_size: int) -> Any:
        import torch

        text = [*self.committed, *path]
        return torch.arange(vocab_size) % 2 != text[-1] % 2 if text else None


@pytest.mark.parametrize("rule", ["coupled", "rejection"])
def test_a_constraint_of_a_request_holds_for_every_token_and_for_that_request_only(rule: str) -> None:
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    texts = []
    for budget in (0, 7):
        engine = Engine(toy_model(target), RandomTrees(2), drafter_name="random", rule=rule, budget=budget)
        constraint = OddAfterEven()
        bound = engine.submit([1, 2], settings(temperature=1.0), constraint=constraint)
        free = engine.submit([1, 2], settings(temperature=1.0))
        while engine.busy:
            engine.step()
        assert bound.result is not None
        assert free.result is not None
        tokens = bound.result.token_ids
        assert all(a % 2 != b % 2 for a, b in pairwise(tokens))
        assert list(tokens)[: len(constraint.committed)] == constraint.committed
        assert any(a % 2 == b % 2 for a, b in pairwise(free.result.token_ids))
        texts.append(tokens)
    if rule == "coupled":
        assert texts[0] == texts[1]
