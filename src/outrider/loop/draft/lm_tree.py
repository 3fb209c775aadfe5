"""Trees from a separate draft model: grown where the likeliest nodes are, or of a fixed shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from outrider.cache.base import Cache, CacheKind
from outrider.heads.vocab import expand
from outrider.loop.draft.base import Ask, Rows
from outrider.loop.draft.growth import Growth, Learned
from outrider.loop.draft.held import Branches, Read, Reader
from outrider.loop.draft.level import LevelProbe, Share
from outrider.loop.draft.mixed import MixedGuesses
from outrider.loop.draft.named import Laws, NamedLaws
from outrider.loop.draft.shape import Shape, comb, height, within
from outrider.sampling.law import LogitLaws
from outrider.sampling.threads import one_thread
from outrider.types import DraftTree, Law, Siblings


class ModelTreeDrafter:
    """Drafts trees with a smaller model of the same vocabulary, one pass of it for each level.

    Under rules that mind nothing the tree grows best first (`Growth`). Under rules that read laws, and where
    a `shape` is given, its shape is fixed before anything is drawn (without one, a chain with `width` first
    children): whether a node is drafted then depends on no token, so that those rules stay exact. How
    siblings are made is what the rule asks: drawn in turn without replacement, or the likeliest and one drawn
    from the rest. With guesses of others `beside` the tree grows best first under every rule, and nothing is
    drawn where laws are read: all its nodes are point masses. Where siblings are not allowed, a chain.
    """

    weighs_costs = True
    speculates = True
    features: tuple[int, ...] = ()

    def __init__(
        self,
        reader: Reader,
        cost: float = 0.0,
        *,
        width: int = 2,
        shape: Shape = (),
        levels: int = 64,
        name: str = "lm",
        beside: MixedGuesses | None = None,
        samples: bool = True,
    ) -> None:
        """`reader` runs the model. `levels`: most nodes on a path; `cost`: of a pass, as for `lm`."""
        self.name, self.has_law, self.cost = name, beside is None and samples, cost
        self.observes = beside is not None and beside.observes
        self._reader = reader
        self._share: Share = lambda nodes: cost
        self.caches: tuple[CacheKind, ...] = reader.caches
        self._width, self._shape, self._levels, self._beside = width, shape, levels, beside
        self._samples = samples

    def open(
        self, prompt: Sequence[int], tenant: str = "", caches: Sequence[Cache] = ()
    ) -> tuple[Any, Learned, Any]:
        """Take the cache, or start one; what it lacks of the prompt is read with the first draft."""
        beside = None if self._beside is None else self._beside.open(prompt, tenant)
        return self._reader.begin(prompt, caches), Learned(), beside

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Return a tree for each ask, the passes of the draft model shared by all of them."""
        drafts = [self._draft(ask) for ask in asks]
        while True:
            chosen = [draft.choose() for draft in drafts]
            going = [index for index, nodes in enumerate(chosen) if nodes]
            if not going:
                return [draft.tree() for draft in drafts]
            self.grow([asks[i] for i in going], [drafts[i] for i in going], [chosen[i] for i in going])

    def grow(
        self,
        asks: Sequence[Ask],
        drafts: Sequence[Growth | Drawing],
        chosen: Sequence[Sequence[int]],
    ) -> None:
        """Run the model over the chosen nodes of each draft and add their children."""
        wants = [
            (ask.state[0], draft.branches, nodes)
            for ask, draft, nodes in zip(asks, drafts, chosen, strict=True)
        ]
        rows = self._reader.read(wants)
        for ask, draft, nodes, logits in zip(asks, drafts, chosen, rows, strict=True):
            laws = self._laws(ask, logits, [draft.branches.text(node) for node in nodes])
            draft.passed()
            with one_thread():
                for row, node in enumerate(nodes):
                    draft.expand(node, laws, row)

    def probe(self) -> LevelProbe:
        """Return what times levels of its trees."""
        return LevelProbe(self, self._reader, self._reader.begin)

    def price(self, share: Share) -> None:
        """Take what a level of n nodes costs beside a pass of the target over one row, as it was measured."""
        self.cost, self._share = share(1), share

    def _laws(self, ask: Ask, logits: Tensor, paths: Sequence[Sequence[int]]) -> Laws:
        """Return the laws of rows; over the tokens that have logits where no option acts on others."""
        path, names = paths.__getitem__, self._reader.target_ids
        if names is not None:
            if ask.processing is None:
                laws = LogitLaws(logits, ask.params, None, path)
                return NamedLaws(laws, names, self._reader.vocab_size)
            logits = expand(logits, names, self._reader.vocab_size)
        return LogitLaws(logits, ask.params, ask.processing, path)

    def observe(self, state: tuple[Read, Learned, Any], tree: DraftTree, rows: Rows) -> None:
        """Show the other guessers the target's rows."""
        if self._beside is not None:
            self._beside.observe(state[2], tree, rows)

    def feed(self, state: Any, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        """Learn nothing."""

    def extend(self, state: tuple[Read, Learned, Any], tokens: Sequence[int], kept: int) -> None:
        """Take over what was committed: rows of the kept path stay where the cache holds them."""
        held, _, beside = state
        if held.round is not None:
            held.round.learn(tokens)
            held.round = None
        held.commit(tokens)
        if self._beside is not None:
            for token in tokens:
                self._beside.extend(beside, token)
            self._beside.settle(beside)

    def close(self, state: tuple[Read, Learned, Any]) -> None:
        """Free what the reader holds."""
        state[0].close()

    def _draft(self, ask: Ask) -> Growth | Drawing:
        held, learned, state = ask.state
        deepest = min(ask.budget, self._levels, self._reader.context_limit - len(held.tokens) + 1) - 1
        if not held.ready:
            deepest = -1
        free = ask.siblings is Siblings.ANY and not ask.wants_laws
        if self.has_law and (self._shape or not free):
            shape = self._shape or comb(self._width, ask.budget)
            if not ask.branch:
                shape = comb(1, height(shape))
            forced = len(ask.forced)
            return Drawing(ask, within(shape, ask.budget - forced, deepest + 1 - forced))
        held.round = Growth(
            ask,
            learned,
            width=self._width,
            deepest=deepest,
            cost=self._share,
            drawn=free and self._samples,
            beside=None if self._beside is None else (self._beside, state),
        )
        grown: Growth = held.round
        return grown


class Drawing:
    """One tree of a fixed shape, behind what a grammar forces, while its levels are drawn; fewer nodes only
    where a law has fewer tokens.
    """

    def __init__(self, ask: Ask, shape: Shape) -> None:
        self.branches = Branches()
        self._ask, self._shape = ask, shape
        root = self.branches.begin(ask.forced)
        self._laws: list[Law | None] = [None] * len(ask.forced)
        self._slots: dict[int, int] = {root: -1}
        self._level = [root] if shape else []

    def choose(self) -> list[int]:
        """Return the nodes of the last level that have children in the shape."""
        return [node for node in self._level if self._slots[node] in self._shape]

    def passed(self) -> None:
        """Begin a new level."""
        self._level = []

    def expand(self, node: int, laws: Laws, row: int) -> None:
        """Draw the children of a node, as many as the shape says."""
        slots = [slot for slot, parent in enumerate(self._shape) if parent == self._slots[node]]
        if laws.is_dead_end(row):
            return
        for slot, (token, law) in zip(slots, self._children(node, laws, row, len(slots)), strict=False):
            child = len(self.branches.tokens)
            self.branches.tokens.append(token)
            self.branches.parents.append(node)
            self._laws.append(law)
            self._slots[child] = slot
            self._level.append(child)

    def tree(self) -> DraftTree:
        """Return all nodes, each with the law it was drawn from where the rule reads it."""
        laws = tuple(self._laws) if any(law is not None for law in self._laws) else None
        return DraftTree(tuple(self.branches.tokens), tuple(self.branches.parents), laws)

    def _children(self, node: int, laws: Laws, row: int, count: int) -> list[tuple[int, Law | None]]:
        ask, depth = self._ask, len(self.branches.path(node))
        if ask.params.greedy:
            return [(token, None) for token, _ in laws.best(row, count)]
        law = laws[row]
        top: list[int] = []
        if ask.siblings is Siblings.TOP_AND_ONE and count > 1:
            top = law.topk(min(count - 1, int(law.count_nonzero()))).indices.tolist()
            law = law.clone()
            law[top] = 0.0
            left = float(law.sum())
            if left <= 0:
                return [(token, None) for token in top]
            law /= left
        drawn = ask.draws.tokens(law, count - len(top), depth, node)
        kept = law if ask.wants_laws else None
        return [*((token, None) for token in top), *((token, kept) for token in drawn)]
