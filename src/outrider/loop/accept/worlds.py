"""Small random worlds in which rules are proved: targets and drafters whose laws depend on the text."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from outrider.loop.accept.enumeration import Text
from outrider.sampling.draws import Draws
from outrider.types import DraftTree, Law

Rational = tuple[Fraction, ...]
Model = Callable[[Text], Rational]
"""A model as its exact law: the text so far to the law of the next token."""
Draft = Callable[[Text, Draws], DraftTree]
"""A drafter: the text so far and its draws to a tree."""


@dataclass(frozen=True)
class Case:
    """One small world. Steps take their drafts from `drafts` in turn, then none, until `horizon` tokens."""

    target: Model
    drafts: tuple[Draft, ...]
    horizon: int


def random_law(chance: random.Random, support: Sequence[int], size: int) -> Rational:
    """Return a law over `size` tokens that lives on `support`, often with zeros and ties."""
    weights = [0] * size
    for token in support:
        weights[token] = chance.choice((0, 0, 1, 1, 2, 3, 5))
    weights[chance.choice(support)] += 1
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def random_model(chance: random.Random, size: int, support: Sequence[int] | None = None) -> Model:
    """Return a model with a law of its own for every text."""
    name = chance.random()

    @cache
    def model(text: Text) -> Rational:
        return random_law(random.Random(f"{name}:{text}"), support or range(size), size)

    return model


def sampled(model: Model, length: int) -> Draft:
    """Return a drafter of chains, each guess drawn from the law that its node carries."""

    def draft(text: Text, draws: Draws) -> DraftTree:
        tokens: list[int] = []
        laws: list[Law] = []
        for depth in range(length):
            laws.append(model((*text, *tokens)))
            tokens.append(draws.token(laws[-1], depth))
        return DraftTree.chain(tokens, laws)

    return draft


def guessed(chance: random.Random, size: int, parents: Sequence[int]) -> Draft:
    """Return a drafter of trees with the given parents whose tokens follow from the text without a draw."""
    name = chance.random()

    def draft(text: Text, draws: Draws) -> DraftTree:
        guess = random.Random(f"{name}:{text}")
        return DraftTree(tuple(guess.randrange(size) for _ in parents), tuple(parents))

    return draft


def _shape(chance: random.Random) -> tuple[int, int, int]:
    """Return vocabulary, chain length and horizon, small enough to enumerate."""
    size, length = chance.choice(((2, 3), (3, 3), (3, 2), (4, 2), (4, 1), (3, 0)))
    return size, length, chance.randint(2, 4)


def _sampled_chain(chance: random.Random) -> Case:
    size, length, horizon = _shape(chance)
    draft = sampled(random_model(chance, size), length)
    return Case(random_model(chance, size), (draft,), horizon)


def _equal_laws(chance: random.Random) -> Case:
    size, length, horizon = _shape(chance)
    target = random_model(chance, size)
    return Case(target, (sampled(target, length),), horizon)


def _disjoint_supports(chance: random.Random) -> Case:
    target = random_model(chance, 4, (0, 2))
    draft = sampled(random_model(chance, 4, (1, 3)), chance.randint(1, 2))
    return Case(target, (draft,), 3)


def _guessed_chain(chance: random.Random) -> Case:
    size, length, horizon = _shape(chance)
    draft = guessed(chance, size, range(-1, length - 1))
    return Case(random_model(chance, size), (draft,), horizon)


def _several_steps(chance: random.Random) -> Case:
    model = random_model(chance, 2)
    drafts = [sampled(model, 1), sampled(model, 2), guessed(chance, 2, (-1, 0))]
    chance.shuffle(drafts)
    return Case(random_model(chance, 2), tuple(drafts), 3)


def _guessed_tree(chance: random.Random) -> Case:
    size = chance.randint(2, 3)
    parents = [chance.randrange(-1, node) for node in range(chance.randint(1, 6))]
    return Case(random_model(chance, size), (guessed(chance, size, parents),), 3)


KINDS: dict[str, Callable[[random.Random], Case]] = {
    "sampled chains": _sampled_chain,
    "guessed chains": _guessed_chain,
    "draft law equal to the target's": _equal_laws,
    "disjoint supports": _disjoint_supports,
    "several steps": _several_steps,
}

TREES: dict[str, Callable[[random.Random], Case]] = {"guessed trees": _guessed_tree}
