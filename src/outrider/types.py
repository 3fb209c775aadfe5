"""The nouns that travel through the loop: frozen, small, without behaviour of their own.

Letters used in every shape: B sequences, N draft nodes of one sequence, R rows of a pass, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

from torch import Tensor

Law = Tensor | Sequence[Fraction] | Sequence[float]
"""A probability law over the vocabulary, [V]: a float tensor when serving, rationals in the proofs."""

Number = float | Fraction


class Guarantee(StrEnum):
    """What a rule promises about the emitted text."""

    SAME_TOKENS = "same_tokens"
    """The very tokens that plain decoding emits with the same seed."""
    SAME_LAW = "same_law"
    """Tokens with the same joint distribution as plain decoding."""
    LOSSY = "lossy"
    """No promise; refused unless asked for by name."""


class Siblings(StrEnum):
    """What a rule asks of the children of one node, and of a drafter that has a law."""

    ANY = "any"
    """Nothing: tokens may be chosen in any way, and left out for what they are."""
    WITHOUT_REPLACEMENT = "without_replacement"
    """Drawn in turn from one law (`Draws.tokens`), or chosen without a draw. None is left out for what it is:
    whether a node is drafted depends only on laws and on tokens that come before it depth first.
    """
    TOP_AND_ONE = "top_and_one"
    """The most likely tokens, chosen without a draw, then one token drawn from the law without them; the
    same condition on leaving out. The rule is exact on WITHOUT_REPLACEMENT trees too, but not at its best.
    """


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Guessed continuations of one sequence.

    `tokens [N]` are the guesses and `parents [N]` the node each one continues, −1 for a child of the last
    committed token. Parents stand before their children, and siblings stand in the order they were drawn.

    `laws [N]` holds for each node the law `q [V]` it was drawn from, None for a deterministic guess (`laws`
    None: for every node). Among siblings the deterministic ones stand first; the others all carry one law,
    that of the first of them. Each later one was drawn from the same law without the tokens drawn before it
    (nothing is renormalised or copied; rules do that), or, where `replaced`, from the whole law again.

    `chances [N]`, where the drafter tells them: the estimated chance that the pass keeps each node, at most
    that of its parent, known before anything is drawn from the target.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    laws: tuple[Law | None, ...] | None = None
    replaced: bool = False
    chances: tuple[float, ...] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        assert len(self.tokens) == len(self.parents)
        assert all(-1 <= parent < node for node, parent in enumerate(self.parents))
        assert self.chances is None or len(self.chances) == len(self.tokens)
        if self.laws is None:
            return
        assert len(self.laws) == len(self.tokens)
        drawn: dict[int, Law] = {}
        for parent, law in zip(self.parents, self.laws, strict=True):
            assert law is drawn.get(parent, law), "siblings of one law, deterministic guesses first"
            if law is not None:
                drawn[parent] = law

    def __len__(self) -> int:
        return len(self.tokens)

    def law(self, node: int) -> Law | None:
        """Return the law `q [V]` that a node carries; None for a deterministic guess."""
        return None if self.laws is None else self.laws[node]

    @classmethod
    def chain(
        cls,
        tokens: Sequence[int],
        laws: Sequence[Law | None] | None = None,
        chances: Sequence[float] | None = None,
    ) -> DraftTree:
        """Return the tree in which every token continues the one before it."""
        return cls(
            tuple(tokens),
            tuple(range(-1, len(tokens) - 1)),
            None if laws is None else tuple(laws),
            chances=None if chances is None else tuple(chances),
        )

    def subtree(self, nodes: Sequence[int]) -> DraftTree:
        """Return the tree of these nodes, in rising order; the parent of each is among them."""
        if len(nodes) == len(self.tokens):
            return self
        place = {-1: -1, **{node: index for index, node in enumerate(nodes)}}
        laws = None if self.laws is None else tuple(self.laws[node] for node in nodes)
        return DraftTree(
            tuple(self.tokens[node] for node in nodes),
            tuple(place[self.parents[node]] for node in nodes),
            laws if laws is not None and any(law is not None for law in laws) else None,
            self.replaced,
            None if self.chances is None else tuple(self.chances[node] for node in nodes),
        )

    @property
    def is_chain(self) -> bool:
        """True when every node continues the node before it (also for the empty tree)."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

    def children(self, node: int) -> list[int]:
        """Return the children of `node` (−1: of the last committed token), in the order they were drawn."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def depths(self) -> list[int]:
        """Return the depth of each node, [N]; a child of the last committed token has depth 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return depths


class Laws(Protocol):
    """The target's laws for one tree, `p [N+1, V]`, computed only where they are asked for.

    Row 0 is the law after the committed text; row i+1 is the law after node i.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> Law:
        """Return the whole law of a row."""
        ...

    def probability(self, row: int, token: int) -> Number:
        """Return one token's probability at a row, the number that the row's law holds for it.

        It may cost much less than the law.
        """
        ...

    def mode(self, row: int) -> int:
        """Return the most likely token of a row, the lowest id among equals."""
        ...

    def entropy(self, row: int) -> float:
        """Return the entropy of a row's law in nats, up to rounding. It may cost much less than the law."""
        ...


@dataclass(frozen=True, slots=True)
class Scored:
    """A draft tree with the target's laws at each of its nodes."""

    tree: DraftTree
    laws: Laws


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule keeps: a path of nodes from the root down (maybe empty) and one more token."""

    path: tuple[int, ...]
    token: int


@dataclass(frozen=True, slots=True)
class Committed:
    """What one step added to one sequence, after stops and lengths cut it.

    `tokens` were emitted; the first `kept` of them were drafted, the rest (0 or 1) drawn from the target.
    `finish_reason` is "stop", "length" or "error" when the sequence ended in this step.
    """

    tokens: tuple[int, ...]
    kept: int
    finish_reason: str | None = None


class Trace(StrEnum):
    """How much is kept of a request's passes, for whoever looks at them."""

    TOKENS = "tokens"
    """Of every emitted token where it came from and how likely it was."""
    TREES = "trees"
    """How likely the target found every drafted node, too."""


@dataclass(frozen=True, slots=True)
class PassTrace:
    """What one pass drafted for one sequence (N nodes), and what became of it (E emitted tokens).

    Probabilities are those of the models' laws for a token after what comes before it: the target's own,
    before any option, and the drafter's (`None` where it tells none). NaN where a model gives no number.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    authors: tuple[str, ...]
    """[N]: which drafter guessed the node; several that did are joined by `+`."""
    draft_probabilities: tuple[float | None, ...]
    """[N]: of the law that the node was drawn from, else the drafter's estimate that the target takes it."""
    probabilities: tuple[float, ...] | None
    """[N]: the target's; None where trees were not asked for."""
    path: tuple[int, ...]
    """The nodes that were emitted."""
    emitted: tuple[int, ...]
    """[E]: their tokens, and one more from the target unless a stop cut it off."""
    emitted_probabilities: tuple[float, ...]
    """[E]: the target's."""

    def shortened(self, tokens: int) -> PassTrace:
        """Return it as if the pass had emitted only its first `tokens` tokens."""
        return replace(
            self,
            path=self.path[:tokens],
            emitted=self.emitted[:tokens],
            emitted_probabilities=self.emitted_probabilities[:tokens],
        )
