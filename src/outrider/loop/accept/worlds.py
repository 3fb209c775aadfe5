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


Shape = tuple["Shape", ...]
"""A tree without its tokens: the shapes below each child of the root."""
Guesses = Callable[[Text, Rational, int], Sequence[int]]
"""The deterministic ones among so many children, given the text above them and the draft's law there."""
SHAPES: tuple[Shape, ...] = (
    ((), ()),
    ((), (), ()),
    (((),), ()),
    ((), ((),)),
    (((), ()),),
    (((), ()), ()),
    ((((),),), ()),
    (((), ()), ((), ())),
)


def planted(
    model: Model, shape: Shape, guesses: Guesses, *, apart: bool = False, replaced: bool = False
) -> Draft:
    """Return a drafter of trees of one shape whose children are drawn from `model`'s law in turn.

    `guesses` stand before the drawn ones; `apart` takes them out of the law that is drawn from. Where the
    law has too few tokens for its children, the last ones are left out.
    """

    def draft(text: Text, draws: Draws) -> DraftTree:
        tokens: list[int] = []
        parents: list[int] = []
        laws: list[Law | None] = []
        waiting: list[tuple[int, Text, Shape]] = [(-1, (), shape)]
        for node, path, below in waiting:
            law = model((*text, *path))
            fixed = guesses((*text, *path), law, len(below))
            if apart:
                law = tuple(Fraction(0) if token in fixed else p for token, p in enumerate(law))
            count, depth = len(below) - len(fixed) if sum(law) else 0, len(path)
            if replaced:
                drawn = [draws.tokens(law, 1, depth, 10 * node + nth)[0] for nth in range(count)]
            else:
                drawn = draws.tokens(law, count, depth, node)
            law = tuple(p / sum(law) for p in law) if drawn else law
            for token, child in zip((*fixed, *drawn), below, strict=False):
                waiting.append((len(tokens), (*path, token), child))
                tokens.append(token)
                parents.append(node)
            laws += [None] * len(fixed) + [law] * len(drawn)
        return DraftTree(tuple(tokens), tuple(parents), tuple(laws), replaced)

    return draft


def no_guesses(text: Text, law: Rational, count: int) -> Sequence[int]:
    """Leave every child to be drawn."""
    return ()


def likeliest(text: Text, law: Rational, count: int) -> Sequence[int]:
    """Guess all children but one, the likeliest tokens."""
    possible = [token for token, p in enumerate(law) if p]
    return sorted(possible, key=lambda token: -law[token])[: max(count - 1, 0)]


def random_guesses(chance: random.Random) -> Guesses:
    """Return guesses of any tokens, equal and impossible ones among them."""
    name = chance.random()

    def guesses(text: Text, law: Rational, count: int) -> Sequence[int]:
        guess = random.Random(f"{name}:{text}")
        return [guess.randrange(len(law)) for _ in range(guess.randint(0, count))]

    return guesses


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


def _nodes(shape: Shape) -> int:
    return sum(1 + _nodes(child) for child in shape)


def _tree(chance: random.Random, guesses: Guesses, *, apart: bool = False, replaced: bool = False) -> Case:
    # Draws with replacement have many outcomes, and so have large trees over many tokens.
    shape = chance.choice([shape for shape in SHAPES if _nodes(shape) <= 4] if replaced else SHAPES)
    large = replaced or _nodes(shape) > 4
    size = chance.choice((2, 3) if large else (2, 3, 3, 4))
    target, model = random_model(chance, size), random_model(chance, size)
    draft = planted(model, shape, guesses, apart=apart, replaced=replaced)
    return Case(target, (draft,), 2 if large else chance.randint(2, 3))


def _drawn_tree(chance: random.Random) -> Case:
    return _tree(chance, no_guesses)


def _replaced_tree(chance: random.Random) -> Case:
    return _tree(chance, no_guesses, replaced=True)


def _mixed_tree(chance: random.Random) -> Case:
    return _tree(chance, random_guesses(chance), apart=chance.random() < 0.5, replaced=chance.random() < 0.3)


def _top_and_one(chance: random.Random) -> Case:
    return _tree(chance, likeliest, apart=True)


def _equal_tree(chance: random.Random) -> Case:
    target = random_model(chance, chance.randint(2, 4))
    return Case(target, (planted(target, chance.choice(SHAPES), no_guesses),), 2)


def _disjoint_tree(chance: random.Random) -> Case:
    target, model = random_model(chance, 4, (0, 2)), random_model(chance, 4, (1, 3))
    return Case(target, (planted(model, chance.choice(SHAPES[:4]), no_guesses),), 2)


def _several_trees(chance: random.Random) -> Case:
    target, model = random_model(chance, 2), random_model(chance, 2)
    drafts = [planted(model, ((), ()), no_guesses), planted(model, ((),), random_guesses(chance))]
    chance.shuffle(drafts)
    return Case(target, tuple(drafts), 3)


KINDS: dict[str, Callable[[random.Random], Case]] = {
    "sampled chains": _sampled_chain,
    "guessed chains": _guessed_chain,
    "draft law equal to the target's": _equal_laws,
    "disjoint supports": _disjoint_supports,
    "several steps": _several_steps,
}

TREES: dict[str, Callable[[random.Random], Case]] = {
    "guessed trees": _guessed_tree,
    "drawn trees": _drawn_tree,
    "trees drawn with replacement": _replaced_tree,
    "guessed and drawn siblings": _mixed_tree,
    "the likeliest and one draw": _top_and_one,
    "trees drawn from the target's law": _equal_tree,
    "trees of disjoint supports": _disjoint_tree,
    "several steps of trees": _several_trees,
}
