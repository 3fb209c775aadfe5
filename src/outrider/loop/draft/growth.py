"""Growing a tree from a draft model's laws, level by level, where the likeliest nodes are (EAGLE-2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from outrider.loop.draft.base import Ask
from outrider.loop.draft.guess import BINS, JOINED_WEIGHT, LAST_RANK, Guess, join, record
from outrider.loop.draft.held import Branches
from outrider.loop.draft.mixed import MixedGuesses
from outrider.loop.draft.named import Laws
from outrider.loop.draft.rates import Rates
from outrider.loop.draft.worth import best_count
from outrider.types import DraftTree

SURE = 0.9
"""Chance from which other guesses are taken without a pass of the draft model."""
FLOOR = 0.005
"""Least survival of a node."""


@dataclass(slots=True)
class Learned:
    """What one sequence has shown: how good the draft model's guesses are, and the joined ones."""

    own: Rates = field(default_factory=Rates)
    joined: Rates = field(default_factory=partial(Rates, JOINED_WEIGHT))


class Growth:
    """One tree while it grows: drafted nodes, their estimated survival, and which have been expanded.

    The survival of a node is the product of the chances on its path. A chance is the draft model's own
    probability, corrected by how often guesses of such a probability came true in this sequence; where tokens
    are drawn with the noise of the target, it is learned by rank and by how sure the model was. `beside`
    holds other guesses: they join the model's at every node, and where they are sure they stand alone.

    Which nodes are kept follows from the very tokens that were chosen or drawn, so this is for rules that
    mind nothing (`Siblings.ANY`), or for guesses without a draw (`drawn` False).
    """

    def __init__(
        self,
        ask: Ask,
        learned: Learned,
        *,
        width: int,
        deepest: int,
        cost: Callable[[int], float],
        drawn: bool,
        beside: tuple[MixedGuesses, Any] | None,
    ) -> None:
        """`cost`: of a pass of the draft model over n nodes, beside one of the target over one row."""
        self.branches = Branches()
        self._ask, self._learned, self._beside = ask, learned, beside
        self._width, self._deepest, self._cost, self._drawn = width, deepest, cost, drawn
        self._survival: list[float] = []
        self._depth: list[int] = []
        self._places: dict[int, Any] = {}
        self._own: dict[int, list[Guess]] = {}
        self._found: dict[int, list[Guess]] = {}
        self._asked, self._spent = 1, 0.0

    def choose(self) -> list[int]:
        """Return the nodes whose law the next pass of the draft model should tell; none when it is enough.

        They are the likeliest of those that would be drafted now and have not been expanded.
        """
        self._trust()
        if -1 not in self._found:
            self._asked = 1
            return [-1] if self._deepest >= 0 else []
        taken = self._ranked()[: self._ask.budget]
        chosen = [n for n in taken if n not in self._found and self._depth[n] <= self._deepest][: self._width]
        if not chosen or not self._worth(taken, chosen):
            return []
        self._asked = len(chosen)
        return sorted(chosen)

    def expand(self, node: int, laws: Laws, row: int) -> None:
        """Add children of a node, given the draft model's law after it."""
        own = [] if laws.is_dead_end(row) else self._guesses(node, laws, row)
        self._own[node] = own
        self.found(node, join([own, self._others(node)], self._learned.joined) if self._beside else own)

    def found(self, node: int, guesses: Sequence[Guess]) -> None:
        """Add a child for each guess at a node, unless it is too unlikely."""
        self._found[node] = list(guesses)
        if not self._ask.branch:
            guesses = [max(guesses, key=lambda guess: guess.chance)] if guesses else []
        before = 1.0 if node < 0 else self._survival[node]
        depth = 1 if node < 0 else self._depth[node] + 1
        for guess in guesses:
            survival = before * guess.chance
            if survival >= FLOOR:
                self.branches.tokens.append(guess.token)
                self.branches.parents.append(node)
                self._survival.append(survival)
                self._depth.append(depth)

    def passed(self) -> None:
        """Note that a pass of the draft model was made over the nodes that were chosen."""
        self._spent += self._cost(self._asked)

    def tree(self) -> DraftTree:
        """Return the likeliest nodes, as many as are worth their time."""
        ranked = self._ranked()[: self._ask.budget]
        ranked = ranked[: best_count([self._survival[node] for node in ranked], self._ask.costs)]
        number = {-1: -1}
        for node in ranked:
            number[node] = len(number) - 1
        parents = tuple(number[self.branches.parents[node]] for node in ranked)
        return DraftTree(
            tuple(self.branches.tokens[node] for node in ranked),
            parents,
            chances=tuple(self._survival[node] for node in ranked),
        )

    def learn(self, tokens: Sequence[int]) -> None:
        """Note which guesses were right, as far as committed tokens stayed in the tree that was grown."""
        node = -1
        for token in tokens:
            if node not in self._found:
                break
            record(self._learned.own, self._own.get(node, ()), token)
            if self._beside and node in self._own:
                record(self._learned.joined, self._found[node], token)
            below = (n for n, parent in enumerate(self.branches.parents) if parent == node)
            node = next((n for n in below if self.branches.tokens[n] == token), -2)

    def _ranked(self) -> list[int]:
        """Return all nodes by survival; a parent never comes after its child, since chances are at most 1."""
        return sorted(range(len(self._survival)), key=lambda node: (-self._survival[node], node))

    def _trust(self) -> None:
        """Expand the likeliest nodes by the other guesses alone, where they are sure."""
        if self._beside is None:
            return
        reached = [-1]
        while reached:
            node = reached.pop()
            others = self._others(node) if node not in self._found else []
            if any(o.chance >= SURE for o in others) and len(self.branches.tokens) < 2 * self._ask.budget:
                self.found(node, others)
            if node in self._found:
                taken = set(self._ranked()[: self._ask.budget])
                reached += [n for n, p in enumerate(self.branches.parents) if p == node and n in taken]

    def _worth(self, taken: Sequence[int], chosen: Sequence[int]) -> bool:
        """Tell whether another pass brings more for its time than the step does so far.

        A child's chance is taken to be the geometric mean of those on the path to it; where the budget is
        full it takes the place of the least likely node.
        """
        costs = self._ask.costs
        nodes = best_count([self._survival[node] for node in taken], costs)
        so_far = 1 + sum(self._survival[node] for node in taken[:nodes])
        spare = self._ask.budget - len(taken)
        lost = self._survival[taken[-1]] if spare < len(chosen) else 0.0
        following = [self._survival[n] ** (1 + 1 / self._depth[n]) for n in chosen]
        gain = sum(max(0.0, chance - lost) for chance in following)
        more, time = self._cost(len(chosen)), 1 + self._spent
        if costs:
            most = min(nodes + len(chosen), len(costs) - 1)
            more, time = more + costs[most] - costs[nodes], time + costs[nodes] - 1
        return more == 0 or bool(gain * time > so_far * more)

    def _guesses(self, node: int, laws: Laws, row: int) -> list[Guess]:
        ask, rates, found = self._ask, self._learned.own, []
        if self._drawn and not ask.params.greedy:
            depth = 0 if node < 0 else self._depth[node]
            sure, left = laws.confidence(row), 1.0
            for rank, token in enumerate(ask.draws.tokens(laws[row], self._width, depth, node)):
                kind = ("drawn", min(rank, LAST_RANK), int(BINS * sure))
                prior = 0.35 + 0.65 * sure if rank == 0 else 0.35
                chance = left * min(rates.rate(kind, prior), 1.0)
                left -= chance
                found.append(Guess(token, chance, kind))
            return found
        before = left = 1.0
        for rank, (token, probability) in enumerate(laws.best(row, self._width)):
            given = min(probability / max(before, probability), 1.0)
            before -= probability
            kind = ("best", min(rank, LAST_RANK), int(BINS * given))
            chance = left * min(rates.rate(kind, given), 1.0)
            left -= chance
            found.append(Guess(token, chance, kind))
        return found

    def _others(self, node: int) -> list[Guess]:
        """Return the other guesses at a node."""
        if self._beside is None:
            return []
        guesses, state = self._beside
        return guesses.guesses(state, self._place(guesses, state, node))

    def _place(self, guesses: MixedGuesses, state: Any, node: int) -> Any:
        if node not in self._places:
            if node < 0:
                self._places[node] = guesses.here(state)
            else:
                before = self._place(guesses, state, self.branches.parents[node])
                self._places[node] = guesses.follow(state, before, self.branches.tokens[node])
        return self._places[node]
