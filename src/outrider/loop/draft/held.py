"""A draft model's cache of one sequence, and passes over trees that grow level by level."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch.nn.functional as F
from torch import Tensor

from outrider.cache.base import Cache, CacheKind
from outrider.loop.verify.pack import PROMPT_ROWS, Part, pack
from outrider.models.base import Batch, Target
from outrider.types import DraftTree


@dataclass(slots=True)
class Held:
    """What the draft model holds of one sequence.

    Its cache holds the committed text `tokens` up to `cache.length`, or all of it and then `trunk`: drafted
    tokens that all rows of the next pass continue.
    """

    cache: Cache
    tokens: list[int]
    trunk: list[int] = field(default_factory=list)
    round: Any = None
    """What the drafter remembers of its last draft."""
    ready: bool = True
    """A draft model can go on after any text."""

    def commit(self, tokens: Sequence[int]) -> None:
        """Take over committed tokens: of the trunk stay those that were committed, whatever was kept or cut.

        The last token is never held, so that the next pass has a row to start from.
        """
        same = shared(self.trunk, tokens[:-1])
        self.cache.truncate(min(self.cache.length, len(self.tokens) + same))
        self.tokens.extend(tokens)
        self.trunk = []

    def rewind(self) -> None:
        """Forget the rows of drafted nodes."""
        self.cache.keep(())
        self.cache.truncate(min(self.cache.length, len(self.tokens)))
        self.trunk = []

    def close(self) -> None:
        """Free the cache, whatever an interrupted pass has left in it."""
        self.cache.keep(())
        self.cache.truncate(0)


@dataclass(slots=True)
class Branches:
    """Drafted nodes of one sequence, in the order they were made: `tokens [N]` and `parents [N]`."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)

    def begin(self, tokens: Sequence[int]) -> int:
        """Start with a chain of tokens and return its last node, −1 where there are none."""
        self.tokens += tokens
        self.parents += range(-1, len(tokens) - 1)
        return len(tokens) - 1

    def path(self, node: int) -> list[int]:
        """Return the nodes from the root's child down to `node`; none for −1, the last committed token."""
        nodes: list[int] = []
        while node >= 0:
            nodes.append(node)
            node = self.parents[node]
        return nodes[::-1]

    def depth(self, node: int) -> int:
        """Return how many nodes the path to `node` has."""
        count = 0
        while node >= 0:
            count += 1
            node = self.parents[node]
        return count

    def text(self, node: int) -> tuple[int, ...]:
        """Return the tokens on the path to `node`, its own included."""
        return tuple(self.tokens[step] for step in self.path(node))


class Read(Protocol):
    """What a `Reader` knows of one sequence; `round` is the drafter's own."""

    tokens: list[int]
    round: Any

    @property
    def ready(self) -> bool:
        """True where what comes after the committed text can be read."""
        ...

    def commit(self, tokens: Sequence[int]) -> None:
        """Take over committed tokens."""
        ...

    def rewind(self) -> None:
        """Forget what was read of drafted nodes."""
        ...

    def close(self) -> None:
        """Free what is held, whatever an interrupted pass has left in it."""
        ...


class Reader(Protocol):
    """Tells what a model expects after nodes of trees, of many sequences at once."""

    vocab_size: int
    """The target's V."""
    context_limit: int
    caches: tuple[CacheKind, ...]
    """As `Drafter.caches`: one, or none."""
    target_ids: Tensor | None
    """[Vd]: the tokens that logits are of, rising; None where they are of all tokens."""

    def begin(self, prompt: Sequence[int], caches: Sequence[Cache] = ()) -> Any:
        """Return a `Read` of a new sequence, with the cache that is given, or a new one."""
        ...

    def read(self, wants: Sequence[tuple[Any, Branches, Sequence[int]]]) -> list[Tensor]:
        """Return for each sequence the logits [W, V] (or Vd) after its chosen nodes, in their order.

        A node is read once; −1 is the last committed token.
        """
        ...


class TreeReader:
    """Runs a draft model over chosen nodes of many sequences at once, one pass for all of them.

    The cache can only keep a path. So after a pass it keeps what all chosen nodes have in common, and other
    ancestors of the nodes that are chosen next are run again, beside them, in the same pass.
    """

    def __init__(self, model: Target, vocabulary: int) -> None:
        self._model, self.vocab_size = model, vocabulary
        self.context_limit = model.context_limit
        self.target_ids: Tensor | None = None
        self.caches: tuple[CacheKind, ...] = (CacheKind(model.new_cache, model.context_limit),)

    def begin(self, prompt: Sequence[int], caches: Sequence[Cache] = ()) -> Held:
        """Take the cache, or start one; what it lacks of the prompt is read with the first draft."""
        return Held(caches[0] if caches else self._model.new_cache(), list(prompt))

    def read(self, wants: Sequence[tuple[Held, Branches, Sequence[int]]]) -> list[Tensor]:
        """See `Reader.read`."""
        batch = _Rows()
        kept = []
        for held, branches, chosen in wants:
            self._catch_up(held)
            kept.append(batch.add(held, branches, chosen))
        logits = self._model.forward(batch.pack(), [held.cache for held, _, _ in wants])
        for (held, _, _), rows in zip(wants, kept, strict=True):
            held.cache.keep(rows)
        fitted = _fit(logits, self.vocab_size)
        ends = list(itertools.accumulate(len(chosen) for _, _, chosen in wants))
        return [fitted[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _catch_up(self, held: Held) -> None:
        """Read a long text that is still missing, in pieces, before the common pass."""
        cache = held.cache
        while len(held.tokens) - cache.length > PROMPT_ROWS:
            piece = held.tokens[cache.length : cache.length + PROMPT_ROWS]
            self._model.forward(pack([Part(cache.length, piece, DraftTree(), False)]), [cache])
            cache.keep(range(len(piece)))


class _Rows:
    """The rows of one pass, gathered sequence by sequence."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.sequences: list[int] = []
        self.parents: list[int] = []
        self.wanted: list[int] = []
        self._count = 0

    def pack(self) -> Batch:
        rows = (self.tokens, self.positions, self.sequences, self.parents, self.wanted)
        return Batch(*(tuple(column) for column in rows))

    def add(self, held: Held, branches: Branches, chosen: Sequence[int]) -> list[int]:
        """Add what the cache lacks of the text and of the paths to `chosen`; return which rows to keep."""
        paths = [branches.path(node) for node in chosen]
        common = paths[0][: min(shared(paths[0], path) for path in paths)]
        tokens = [branches.tokens[node] for node in common]
        # An interrupted pass leaves less of the trunk than it was to hold.
        trunk = min(shared(held.trunk, tokens), max(0, held.cache.length - len(held.tokens)))
        held.cache.truncate(min(held.cache.length, len(held.tokens) + trunk))
        held.trunk = tokens
        text = held.tokens[held.cache.length :]
        first, base = len(self.tokens), held.cache.length
        self.tokens += text
        self.positions += range(base, base + len(text))
        self.parents += [-1, *range(first, first + len(text) - 1)][: len(text)]
        last = len(self.tokens) - 1 if text else -1
        row_of = dict.fromkeys([-1, *common[:trunk]], last)
        for node in sorted({node for path in paths for node in path} - set(common[:trunk])):
            row_of[node] = len(self.tokens)
            self.parents.append(row_of[branches.parents[node]])
            self.positions.append(len(held.tokens) - 1 + len(branches.path(node)))
            self.tokens.append(branches.tokens[node])
        assert all(row_of[node] >= first for node in chosen), "a node is read once"
        self.wanted += [row_of[node] for node in chosen]
        self.sequences += [self._count] * (len(self.tokens) - first)
        self._count += 1
        return [*range(len(text)), *(row_of[node] - first for node in common[trunk:])]


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many items two sequences begin with alike."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _fit(logits: Tensor, vocabulary: int) -> Tensor:
    """Return [W, V] over the target's V: vocabularies may be padded to different sizes."""
    missing = vocabulary - logits.shape[-1]
    return F.pad(logits, (0, missing), value=float("-inf")) if missing > 0 else logits[:, :vocabulary]
