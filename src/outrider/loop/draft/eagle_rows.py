"""What an EAGLE head knows of one sequence, and its passes over text and over trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from outrider.cache.base import Cache, CacheKind
from outrider.heads.passes import ReadyHead
from outrider.loop.draft.held import Branches, shared
from outrider.models.base import Batch

READ_ROWS = 64
"""So many states are read at once while a prompt is read; fewer wait for the next draft."""


@dataclass(slots=True)
class Followed:
    """One sequence. The head's cache holds a row for each state of the target that it has read, and then
    those of `trunk`: drafted nodes that all rows of the next pass continue.
    """

    cache: Cache
    tokens: list[int]
    """The committed text."""
    read: int = 0
    """States that were read: the cache holds as many rows, and those of the trunk."""
    waiting: list[Tensor] = field(default_factory=list)
    """States [n, C * D] that were not, in order."""
    trunk: list[int] = field(default_factory=list)
    outputs: dict[int, Tensor] = field(default_factory=dict)
    """What the head gave for nodes of the tree at hand, [H] each; −1: for the text."""
    logits: Tensor | None = None
    """Its logits [Vd] after the text."""
    round: Any = None
    """What the drafter remembers of its last draft."""

    @property
    def ready(self) -> bool:
        """True where every token but the last has been run through the target, and its state is known."""
        return self.read + sum(len(states) for states in self.waiting) == len(self.tokens) - 1 > 0

    def commit(self, tokens: Sequence[int]) -> None:
        """Take over committed tokens; rows of drafts are forgotten: states of the target replace them."""
        self.rewind()
        self.outputs.clear()
        self.logits = None
        self.tokens.extend(tokens)

    def close(self) -> None:
        """Free the cache, whatever an interrupted pass has left in it."""
        self.cache.keep(())
        self.cache.truncate(0)

    def rewind(self) -> None:
        """Forget the rows of drafted nodes."""
        self.cache.truncate(self.read)
        self.trunk = []


class HeadReader:
    """Runs a head over states of the target and over chosen nodes of trees, of many sequences at once."""

    def __init__(self, head: ReadyHead) -> None:
        self._head, self.target_ids, self.vocab_size = head.passes, head.target_ids, head.vocab_size
        self.context_limit = head.context_limit
        self.caches: tuple[CacheKind, ...] = (CacheKind(head.new_cache, head.context_limit, of_states=True),)

    def begin(self, prompt: Sequence[int], caches: Sequence[Cache] = ()) -> Followed:
        """Take the cache, or start one; it fills as states of the target come."""
        cache = caches[0] if caches else self._head.new_cache()
        return Followed(cache, list(prompt), cache.length)

    def take(self, followed: Followed, states: Tensor) -> None:
        """Take states [n, C * D] of the target; those of a longer piece of text are read at once.

        The state of the last token waits in any case: the token after it may not be known.
        """
        followed.waiting.append(states)
        count = sum(len(waiting) for waiting in followed.waiting)
        known = len(followed.tokens) - 1 - followed.read
        if min(count, known) >= READ_ROWS:
            everything = torch.cat(followed.waiting)
            followed.waiting = [everything[: min(count, known)]]
            rest = everything[min(count, known) :]
            self._read([followed])
            followed.waiting = [rest] if len(rest) else []

    def read(self, wants: Sequence[tuple[Followed, Branches, Sequence[int]]]) -> list[Tensor]:
        """See `Reader.read`. Parents of a node that were not read are read first."""
        self._read([followed for followed, _, _ in wants if followed.waiting])
        logits: list[dict[int, Tensor]] = [{} for _ in wants]
        left = [
            {n for c in chosen for n in branches.path(c)} - followed.outputs.keys()
            for followed, branches, chosen in wants
        ]
        while any(left):
            going = [index for index, nodes in enumerate(left) if nodes]
            firsts = [
                sorted(n for n in left[i] if wants[i][1].parents[n] in wants[i][0].outputs) for i in going
            ]
            found = self._expand([(*wants[i][:2], nodes) for i, nodes in zip(going, firsts, strict=True)])
            for index, nodes, rows in zip(going, firsts, found, strict=True):
                logits[index].update(zip(nodes, rows, strict=True))
                left[index] -= set(nodes)
        results = []
        for (followed, _, chosen), own in zip(wants, logits, strict=True):
            if followed.logits is not None:
                own[-1] = followed.logits
            results.append(torch.stack([own[node] for node in chosen]))
        return results

    def _read(self, many: Sequence[Followed]) -> None:
        """Run the head over the states that wait."""
        if not many:
            return
        rows = _Rows()
        for followed in many:
            followed.rewind()
            count = sum(len(states) for states in followed.waiting)
            after = followed.tokens[followed.read + 1 : followed.read + 1 + count]
            rows.add(after, followed.read, [-1, *range(count - 1)], [count - 1])
        states = torch.cat([states for followed in many for states in followed.waiting])
        output = self._head.run(rows.batch(), [followed.cache for followed in many], features=states)
        for place, followed in enumerate(many):
            count = sum(len(states) for states in followed.waiting)
            followed.cache.keep(range(count))
            followed.read += count
            followed.waiting = []
            followed.outputs = {-1: output.states[place]}
            followed.logits = output.logits[place]

    def _expand(self, wants: Sequence[tuple[Followed, Branches, Sequence[int]]]) -> list[Tensor]:
        """Run the head over nodes whose parents' outputs are known; return their logits [W, Vd].

        The cache keeps a path alone: of the tree it holds what all these nodes continue, and their other
        ancestors are run again beside them.
        """
        rows = _Rows()
        inputs: list[Tensor] = []
        kept: list[list[int]] = []
        for followed, branches, nodes in wants:
            paths = [branches.path(node) for node in nodes]
            common = paths[0][: min(shared(paths[0], path) for path in paths)]
            common = [node for node in common if node not in nodes]
            held = shared(followed.trunk, common)
            followed.cache.truncate(followed.read + held)
            followed.trunk = common
            run = sorted({node for path in paths for node in path} - set(common[:held]))
            place = {node: row for row, node in enumerate(run)}
            parents = [place.get(branches.parents[node], -1) for node in run]
            depths = [followed.read + len(branches.path(node)) - 1 for node in run]
            rows.add([branches.tokens[node] for node in run], depths, parents, [place[n] for n in nodes])
            inputs += [followed.outputs[branches.parents[node]] for node in run]
            kept.append([place[node] for node in common[held:]])
        output = self._head.run(
            rows.batch(), [followed.cache for followed, _, _ in wants], inputs=torch.stack(inputs)
        )
        results, done = [], 0
        for (followed, _, nodes), keep in zip(wants, kept, strict=True):
            followed.cache.keep(keep)
            followed.outputs.update(zip(nodes, output.states[done : done + len(nodes)], strict=True))
            results.append(output.logits[done : done + len(nodes)])
            done += len(nodes)
        return results


class _Rows:
    """The rows of one pass, gathered sequence by sequence."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._positions: list[int] = []
        self._sequences: list[int] = []
        self._parents: list[int] = []
        self.wanted: list[int] = []
        self._count = 0

    def add(
        self,
        tokens: Sequence[int],
        positions: int | Sequence[int],
        parents: Sequence[int],
        wanted: Sequence[int],
    ) -> None:
        """Add rows of the next sequence; `positions`: of each, or of the first in a chain."""
        first, count = len(self._tokens), len(tokens)
        if isinstance(positions, int):
            positions = range(positions, positions + count)
        self._tokens += tokens
        self._positions += positions
        self._sequences += [self._count] * count
        self._parents += [-1 if parent < 0 else first + parent for parent in parents]
        self.wanted += [first + row for row in wanted]
        self._count += 1

    def batch(self) -> Batch:
        """Return all of them."""
        columns = (self._tokens, self._positions, self._sequences, self._parents, self.wanted)
        return Batch(*(tuple(column) for column in columns))
