"""A request that cannot go on ends alone: its batch goes on, and its error is told to the one who asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from conftest import VOCAB, plain_tokens, toy_model
from matrix import ALL_DRAFTERS, make_drafter
from outrider.engine.engine import Engine
from outrider.engine.live import Stream
from outrider.errors import DeadEndError, NumericsError, OptionError
from outrider.llm import LLM
from outrider.loop.draft.none import NoDrafter
from outrider.models.base import PassOutput
from outrider.models.toy import ToyTarget
from outrider.sampling.params import SamplingParams
from reference import settings


class Damaged(ToyTarget):
    """Gives NaN for every token after token 7."""

    def run(self, batch: Any, caches: Any, **options: Any) -> PassOutput:
        output = super().run(batch, caches, **options)
        if options.get("layers") is not None:  # what drafts is in order
            return output
        for index, row in enumerate(batch.wanted):
            if batch.tokens[row] == 7:
                output.logits[index, 2] = torch.nan
        return output


def fails_late(prefix: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
    if len(prefix) >= 9:
        raise ValueError("too long for me")
    return logits


@pytest.mark.parametrize("rule", ["auto", "rejection"])
@pytest.mark.parametrize("drafter", ALL_DRAFTERS)
def test_the_others_of_the_batch_get_their_texts(drafter: str, rule: str) -> None:
    target = Damaged(VOCAB, seed=1, zeros=0.0)
    engine = Engine(toy_model(target), make_drafter(drafter, target), drafter_name=drafter, rule=rule)
    good = settings(temperature=1.0, banned_tokens=(7,))
    bad = [
        (settings(temperature=1.0, logit_bias={7: 100.0}), NumericsError, "the model's logits"),
        (
            settings(temperature=1.0, banned_tokens=(7,), logits_processors=fails_late),
            OptionError,
            "too long",
        ),
        (settings(allowed_tokens=(0, 1), no_repeat_ngram_size=1), DeadEndError, "no token is left"),
    ]
    first = engine.submit([0, 1, 2], good)
    failing = [engine.submit([4, 5], params) for params, _, _ in bad]
    last = engine.submit([3], good)
    while engine.busy:
        engine.step()
    for request, prompt in ((first, [0, 1, 2]), (last, [3])):
        assert request.error is None
        assert request.result is not None
        alone = Engine(toy_model(target), make_drafter("none", target), drafter_name="none", rule=rule)
        expected = alone.submit(prompt, good)
        while alone.busy:
            alone.step()
        assert expected.result is not None
        if rule == "auto":
            assert request.result.token_ids == expected.result.token_ids
        assert request.result.completion_tokens == 40
    for request, (_, error, words) in zip(failing, bad, strict=True):
        assert isinstance(request.error, error)
        assert words in str(request.error)
        assert request.result is not None
        assert request.result.finish_reason == "error"
        assert request.sequence.cache.nbytes == 0


def test_what_was_emitted_before_is_kept_and_the_error_ends_the_stream() -> None:
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    engine = Engine(toy_model(target), NoDrafter(), drafter_name="none")
    params = settings(temperature=1.0, logits_processors=fails_late)
    stream = Stream(engine, engine.submit([0, 1], params))
    shown: list[int] = []

    def follow() -> None:
        for chunk in stream:
            shown.extend(chunk.token_ids)

    with pytest.raises(OptionError, match="'fails_late' failed: ValueError: too long for me"):
        follow()
    free = SamplingParams(temperature=1.0, seed=11)
    assert shown == list(stream.close().token_ids) == plain_tokens(target, [0, 1], free, 7)
    assert stream.close().finish_reason == "error"
    assert not engine.busy


def test_generate_raises_it() -> None:
    target = ToyTarget(VOCAB, seed=1, zeros=0.0)
    llm = LLM(toy_model(target), NoDrafter(), drafter_name="none", rule="auto", budget=None)
    with pytest.raises(DeadEndError):
        llm.generate([[0], [1]], allowed_tokens=(0, 1), no_repeat_ngram_size=1)
