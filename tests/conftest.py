"""Small things that many tests use: toy models behind the whole loop, and drafters that guess at random."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

from outrider.engine.engine import Engine
from outrider.engine.result import Result
from outrider.loop.draft.base import Ask, Drafter, Rows
from outrider.models.base import LoadedModel
from outrider.models.decoder import Decoder
from outrider.models.toy import ToyTarget, ToyTokenizer
from outrider.native import why_missing
from outrider.sampling.keyed import SharedDraws
from outrider.sampling.law import law
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree

VOCAB = 8
# One thread a worker: small models are slower on several, and workers fight for processors. A test whose
# promise is about threads sets them, as the fixture `two_threads` does.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)
# No test leaves anything in the user's cache directory, nor do the processes that tests start.
os.environ["OUTRIDER_CACHE"] = "off"
# No test is held to a time: a busy machine takes as long as it takes.
settings.register_profile("outrider", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("outrider")


class RandomTrees:
    """Guesses trees of any shape without looking at anything but a seed: duplicates, wide, deep, empty."""

    name = "random"
    has_law = False
    weighs_costs = False
    speculates = True
    observes = True
    features: tuple[int, ...] = ()
    caches: tuple[Any, ...] = ()

    def __init__(self, seed: int = 0, vocab: int = VOCAB) -> None:
        self._random = random.Random(seed)
        self._vocab = vocab
        self.asked: list[int] = []

    def open(self, prompt: Sequence[int], tenant: str = "") -> list[int]:
        return list(prompt)

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        trees = []
        for ask in asks:
            assert list(ask.tokens) == ask.state, "the drafter was told everything that was committed"
            self.asked.append(ask.budget)
            count = self._random.randint(0, ask.budget)
            tokens = [self._random.randrange(self._vocab) for _ in range(count)]
            parents = [
                self._random.randint(-1, node - 1) if ask.branch else node - 1 for node in range(count)
            ]
            trees.append(DraftTree(tuple(tokens), tuple(parents)))
        return trees

    def observe(self, state: list[int], tree: DraftTree, rows: Rows) -> None:
        assert len(rows) == len(tree) + 1

    def extend(self, state: list[int], tokens: Sequence[int], kept: int) -> None:
        assert 0 <= kept <= len(tokens)
        state.extend(tokens)

    def close(self, state: list[int]) -> None:
        state.clear()


def toy_model(target: ToyTarget, eos: Sequence[int] = ()) -> LoadedModel:
    return LoadedModel("toy", target, ToyTokenizer(target.vocab_size, frozenset(eos)))


def run(
    model: LoadedModel,
    drafter: Drafter,
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    **engine: Any,
) -> list[Result]:
    """Run prompts together through an engine."""
    driver = Engine(model, drafter, drafter_name=drafter.name, **engine)
    requests = [driver.submit(prompt, params) for prompt in prompts]
    for _ in range(10_000):
        if not driver.busy:
            break
        driver.step()
    for request in requests:
        if request.error is not None:
            raise request.error
    results = [request.result for request in requests]
    assert all(result is not None for result in results)
    return [result for result in results if result is not None]


def plain_tokens(target: Any, prompt: Sequence[int], params: SamplingParams, count: int) -> list[int]:
    """Decode one token at a time, straight from the model's law and the position's noise: no loop at all."""
    from outrider.models.base import Batch

    cache, text = target.new_cache(), list(prompt)
    while len(text) < len(prompt) + count:
        base = cache.length
        fresh = text[base:]
        n = len(fresh)
        batch = Batch(tuple(fresh), tuple(range(base, base + n)), (0,) * n, tuple(range(-1, n - 1)), (n - 1,))
        logits = target.forward(batch, [cache])
        cache.keep(range(n))
        p = law(logits[0], params)
        draws = SharedDraws(params.seed or 0, 0, len(text))
        text.append(int(p.argmax()) if params.temperature == 0 else draws.token(p, 0))
    return text[len(prompt) :]


def text_law(target: ToyTarget, prompt: Sequence[int], length: int) -> dict[tuple[int, ...], Fraction]:
    """Return the exact law of the first `length` tokens after a prompt, without impossible texts."""
    expected: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    for _ in range(length):
        expected = {
            (*text, token): mass * p
            for text, mass in expected.items()
            for token, p in enumerate(target.law([*prompt, *text]))
            if p
        }
    return expected


@pytest.fixture(params=["native", "pytorch"])
def decoder_class(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type:
    """The decoder of each implementation of the pass, which models loaded in the test then get."""
    reason = why_missing()
    if request.param == "native" and reason is not None:
        pytest.skip(f"no native pass here: {reason}")
    monkeypatch.setenv("OUTRIDER_PASS", request.param)
    if request.param == "pytorch":
        return Decoder
    from outrider.native.decoder import NativeDecoder

    return NativeDecoder


@pytest.fixture(scope="module")
def two_threads() -> Iterator[None]:
    """Two threads for a module's tests: as many as on the smallest machine that has several."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def toy() -> ToyTarget:
    return ToyTarget(VOCAB, seed=1)
