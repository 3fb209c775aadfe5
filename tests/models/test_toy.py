"""The toy models keep the protocols of real ones, and their law is known exactly."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
import torch

from outrider.models.base import Batch
from outrider.models.toy import ToyCache, ToyTarget, ToyTokenizer
from outrider.sampling.law import law
from outrider.sampling.params import SamplingParams


def chain(tokens: tuple[int, ...], start: int, sequence: int = 0) -> Batch:
    rows = range(len(tokens))
    positions = tuple(start + row for row in rows)
    return Batch(tokens, positions, (sequence,) * len(rows), tuple(row - 1 for row in rows), tuple(rows))


def floats(exact: tuple[Fraction, ...]) -> torch.Tensor:
    return torch.tensor([float(p) for p in exact])


def test_logits_give_back_the_exact_law() -> None:
    toy, cache = ToyTarget(6, order=2, seed=1), ToyCache()
    tokens = (0, 3, 5, 2, 2, 1)
    logits = toy.forward(chain(tokens, 0), [cache])
    assert logits.shape == (6, 6)
    assert logits.dtype == torch.float32
    for row in range(6):
        exact = toy.law(tokens[: row + 1])
        found = law(logits[row], SamplingParams(temperature=1.0))
        torch.testing.assert_close(found, floats(exact), rtol=1e-6, atol=0)
        assert [p == 0 for p in exact] == (found == 0).tolist()


@pytest.mark.parametrize("order", [1, 2])
def test_laws_are_rational_sum_to_one_and_depend_on_the_last_tokens_only(order: int) -> None:
    toy = ToyTarget(4, order=order, seed=3)
    laws = {text: toy.law(text) for text in itertools.product(range(4), repeat=3)}
    assert all(sum(p) == 1 for p in laws.values())
    assert any(0 in p for p in laws.values())
    assert all(p == toy.law(text[-order:]) for text, p in laws.items())
    assert len(set(laws.values())) > 4 ** (order - 1)
    assert ToyTarget(4, order=order, seed=3).law((1, 2)) == toy.law((1, 2))
    assert ToyTarget(4, order=order, seed=4).law((1, 2)) != toy.law((1, 2))


def test_a_tree_gives_each_node_the_law_after_its_own_path() -> None:
    toy, caches = ToyTarget(5, seed=2), [ToyCache(), ToyCache()]
    toy.forward(chain((1, 2), 0), caches[:1])
    caches[0].keep([0, 1])
    # The first sequence: a tree of four nodes after two tokens; the second: a prompt of two tokens.
    batch = Batch(
        tokens=(3, 4, 0, 1, 2, 0),
        positions=(2, 2, 3, 3, 0, 1),
        sequences=(0, 0, 0, 0, 1, 1),
        parents=(-1, -1, 0, 1, -1, 4),
        wanted=(2, 3, 5),
    )
    logits = toy.forward(batch, caches)
    for row, text in enumerate(((1, 2, 3, 0), (1, 2, 4, 1), (2, 0))):
        found = law(logits[row], SamplingParams(temperature=1.0))
        torch.testing.assert_close(found, floats(toy.law(text)), rtol=1e-6, atol=0)
    caches[0].keep([1, 3])
    caches[1].keep([0, 1])
    assert [cache.tokens for cache in caches] == [[1, 2, 4, 1], [2, 0]]


def test_the_cache_keeps_a_path_and_rewinds() -> None:
    toy = ToyTarget(5)
    cache = toy.new_cache()
    toy.forward(chain((1, 2, 3), 0), [cache])
    assert cache.length == 0
    cache.keep([0, 2])
    assert (cache.length, cache.tokens, cache.nbytes) == (2, [1, 3], 16)
    assert cache.can_rewind
    cache.truncate(1)
    assert cache.tokens == [1]


@pytest.mark.parametrize(
    "batch",
    [
        chain((1, 2), 4),
        Batch((1, 2), (3, 3), (0, 0), (-1, 0), (0,)),
        Batch((1,), (3,), (0,), (0,), (0,)),
        Batch((9,), (3,), (0,), (-1,), (0,)),
        Batch((1,), (3,), (1,), (-1,), (0,)),
    ],
    ids=["position", "depth", "parent", "token", "sequence"],
)
def test_rows_that_do_not_fit_the_cache_are_caught(batch: Batch) -> None:
    """Positions that are wrong after a rejection show only in later text; the toy model stops at once."""
    toy, caches = ToyTarget(5), [ToyCache(), ToyCache()]
    toy.forward(chain((1, 2, 3), 0), caches[:1])
    caches[0].keep([0, 1, 2])
    with pytest.raises(AssertionError):
        toy.forward(batch, caches)


def test_pending_rows_and_the_context_limit_are_watched() -> None:
    toy, cache = ToyTarget(5, context_limit=3), ToyCache()
    toy.forward(chain((1, 2), 0), [cache])
    with pytest.raises(AssertionError):
        toy.forward(chain((1,), 0), [cache])
    cache.keep([0, 1])
    with pytest.raises(AssertionError):
        toy.forward(chain((1, 2), 2), [cache])


def test_a_toy_drafter_agrees_with_its_target_as_often_as_asked() -> None:
    target = ToyTarget(8, order=2, seed=1)
    close = ToyTarget(8, order=1, seed=2, like=target, share=Fraction(9, 10))
    far = ToyTarget(8, order=1, seed=2, like=target, share=Fraction(1, 10))

    def overlap(drafter: ToyTarget) -> Fraction:
        texts = list(itertools.product(range(8), repeat=2))
        alphas = [sum(map(min, target.law(text), drafter.law(text)), Fraction(0)) for text in texts]
        return sum(alphas, Fraction(0)) / len(texts)

    assert overlap(close) >= Fraction(9, 10) > overlap(far)


def test_letters_stand_for_tokens() -> None:
    tokenizer = ToyTokenizer(5, eos_ids=frozenset({4}))
    assert tokenizer.decode(tokenizer.encode("badcab")) == "badcab"
    assert tokenizer.decode([1, 4]) == "b"
    assert tokenizer.decode([1, 4], skip_special=False) == "be"
    assert tokenizer.vocabulary() == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}
    assert tokenizer.chat([{"role": "user", "content": "ab"}]) == [0, 1]
