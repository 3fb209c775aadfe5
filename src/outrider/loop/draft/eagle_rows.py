"""What an EAGLE head knows of one sequence, and its passes over text and over trees."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from outrider.cache.base import Cache, CacheKind
from outrider.heads.passes import HeadOutput, ReadyHead
from outrider.loop.draft.held import Branches, shared
from outrider.models.base import Batch

READ_ROWS = 64
"""So many states are read at once while a prompt is read; fewer wait for the next draft."""


@dataclass(slots=True)
class Followed:
    """One sequence. The head's cache holds a row for each state of the target that it has read. Behind them
    are the rows of drafted nodes: pending, or, where the head cannot add to those, a trunk that is kept.
    """

    cache: Cache
    tokens: list[int]
    """The committed text."""
    read: int = 0
    """States that were read: the cache holds as many rows, and those of the trunk."""
    waiting: list[Tensor] = field(default_factory=list)
    """States [n, C * D] that were not, in order."""
    trunk: list[int] = field(default_factory=list)
    """Drafted nodes whose rows are kept: all rows of the next pass continue them."""
    pending: dict[int, int] = field(default_factory=dict)
    """Drafted nodes whose rows are pending, each with its row."""
    outputs: dict[int, Tensor] = field(default_factory=dict)
    """What the head gave for nodes of the tree at hand, [H] each; −1: for the text."""
    logits: Tensor | None = None
    """Its logits [1, Vd] after the text."""
    round: Any = None
    """What the drafter remembers of its last draft."""

    @property
    def ready(self) -> bool:
        """True where every token but the last has been run through the target, and its state is known."""
        return self.read + sum(map(len, self.waiting)) == len(self.tokens) - 1 > 0

    def commit(self, tokens: Sequence[int]) -> None:
        """Take over committed tokens; rows of drafts are forgotten: states of the target replace them."""
        self.rewind()
        self.outputs, self.logits = {}, None
        self.tokens.extend(tokens)

    def close(self) -> None:
        """Free the cache, whatever an interrupted pass has left in it."""
        self.cache.keep(())
        self.cache.truncate(0)

    def rewind(self) -> None:
        """Forget the rows of drafted nodes, and what the head gave for them."""
        self.cache.truncate(self.read)
        self.trunk, self.pending = [], {}
        self.outputs = {-1: self.outputs[-1]} if -1 in self.outputs else {}


class HeadReader:
    """Runs a head over states of the target and over chosen nodes of trees, of many sequences at once."""

    def __init__(self, head: ReadyHead) -> None:
        self._head, self.target_ids, self.vocab_size = head.passes, head.target_ids, head.vocab_size
        self.context_limit = head.context_limit
        self.caches: tuple[CacheKind, ...] = (CacheKind(head.new_cache, head.context_limit, of_states=True),)
        self.state_size = head.passes.features or head.hidden_size
        """C * D: values of the target's states for one row."""
        self._expand = self._grow if head.passes.can_grow else self._run_again

    def begin(self, prompt: Sequence[int], caches: Sequence[Cache] = ()) -> Followed:
        """Take the cache, or start one; it fills as states of the target come."""
        cache = caches[0] if caches else self._head.new_cache()
        return Followed(cache, list(prompt), cache.length)

    def take(self, followed: Followed, states: Tensor) -> None:
        """Take states [n, C * D] of the target; those of a longer piece of text are read at once.

        The state of the last token waits in any case: the token after it may not be known.
        """
        followed.waiting.append(states)
        count = sum(map(len, followed.waiting))
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
        found: list[list[tuple[Sequence[int], Tensor]]] = [
            [] if followed.logits is None else [([-1], followed.logits)] for followed, _, _ in wants
        ]
        while True:
            going, level = [], []
            for index, (followed, branches, chosen) in enumerate(wants):
                nodes = _next_level(branches, chosen, followed.outputs)
                if nodes:
                    going.append(index)
                    level.append((followed, branches, nodes))
            if not going:
                return [_rows_of(chosen, own) for (_, _, chosen), own in zip(wants, found, strict=True)]
            for index, want, logits in zip(going, level, self._expand(level), strict=True):
                found[index].append((want[2], logits))

    def _read(self, many: Sequence[Followed]) -> None:
        """Run the head over the states that wait."""
        if not many:
            return
        rows = _Rows()
        for followed in many:
            followed.rewind()
            count = sum(map(len, followed.waiting))
            after = followed.tokens[followed.read + 1 : followed.read + 1 + count]
            rows.add(after, range(followed.read, followed.read + count), range(-1, count - 1), (count - 1,))
        waiting = [states for followed in many for states in followed.waiting]
        states = waiting[0] if len(waiting) == 1 else torch.cat(waiting)
        output = self._head.run(rows.batch(), [followed.cache for followed in many], features=states)
        for place, followed in enumerate(many):
            count = sum(map(len, followed.waiting))
            followed.cache.keep(range(count))
            followed.read += count
            followed.waiting = []
            followed.outputs = {-1: output.states[place]}
            followed.logits = output.logits[place : place + 1]

    def _grow(self, wants: Sequence[tuple[Followed, Branches, Sequence[int]]]) -> list[Tensor]:
        """Run the head over nodes whose parents' outputs are known; return their logits [W, Vd].

        The rows of their ancestors are pending and stay so: no row is run twice.
        """
        rows = _Rows()
        inputs: list[Tensor] = []
        for followed, branches, nodes in wants:
            above = [branches.parents[node] for node in nodes]
            parents = [-1 if parent < 0 else -2 - followed.pending[parent] for parent in above]
            positions = [followed.read + branches.depth(node) - 1 for node in nodes]
            rows.add([branches.tokens[node] for node in nodes], positions, parents, range(len(nodes)))
            inputs += [followed.outputs[parent] for parent in above]
        output = self._head.run(
            rows.batch(), [followed.cache for followed, _, _ in wants], inputs=torch.stack(inputs), grows=True
        )
        for followed, _, nodes in wants:
            held = len(followed.pending)
            followed.pending.update(zip(nodes, range(held, held + len(nodes)), strict=True))
        return _shared_out(wants, output)

    def _run_again(self, wants: Sequence[tuple[Followed, Branches, Sequence[int]]]) -> list[Tensor]:
        """Do what `_grow` does on caches whose pending rows a pass replaces.

        Such a cache keeps a path alone: of the tree it holds what all these nodes continue, and their other
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
            positions = [followed.read + branches.depth(node) - 1 for node in run]
            rows.add([branches.tokens[node] for node in run], positions, parents, [place[n] for n in nodes])
            inputs += [followed.outputs[branches.parents[node]] for node in run]
            kept.append([place[node] for node in common[held:]])
        output = self._head.run(
            rows.batch(), [followed.cache for followed, _, _ in wants], inputs=torch.stack(inputs)
        )
        for (followed, _, _), keep in zip(wants, kept, strict=True):
            followed.cache.keep(keep)
        return _shared_out(wants, output)


def _next_level(branches: Branches, chosen: Sequence[int], known: Container[int]) -> list[int]:
    """Return those of the chosen nodes and of their ancestors that were not read while their parents were."""
    nodes = set()
    for node in chosen:
        while node not in known:
            if branches.parents[node] in known:
                nodes.add(node)
                break
            node = branches.parents[node]
    return sorted(nodes)


def _shared_out(
    wants: Sequence[tuple[Followed, Branches, Sequence[int]]], output: HeadOutput
) -> list[Tensor]:
    """Note the outputs of the nodes that were read; return their logits [W, Vd], sequence by sequence."""
    results, done = [], 0
    for followed, _, nodes in wants:
        end = done + len(nodes)
        followed.outputs.update(zip(nodes, output.states[done:end].unbind(), strict=True))
        results.append(output.logits[done:end])
        done = end
    return results


def _rows_of(chosen: Sequence[int], found: Sequence[tuple[Sequence[int], Tensor]]) -> Tensor:
    """Return the logits [W, Vd] of the chosen nodes, of what was found level by level."""
    nodes, last = found[-1]
    if list(chosen) == list(nodes):
        return last
    rows = {node: row for nodes, logits in found for node, row in zip(nodes, logits, strict=True)}
    return torch.stack([rows[node] for node in chosen])


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
        positions: Sequence[int],
        parents: Sequence[int],
        wanted: Sequence[int],
    ) -> None:
        """Add rows of the next sequence; parents and what is wanted are counted from its first row."""
        first = len(self._tokens)
        self._tokens += tokens
        self._positions += positions
        self._sequences += [self._count] * len(tokens)
        self._parents += [parent if parent < 0 else first + parent for parent in parents]
        self.wanted += [first + row for row in wanted]
        self._count += 1

    def batch(self) -> Batch:
        """Return all of them."""
        columns = (self._tokens, self._positions, self._sequences, self._parents, self.wanted)
        return Batch(*(tuple(column) for column in columns))
