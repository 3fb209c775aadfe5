"""A drafter that notes the hidden states it is fed, and guesses what is known to come among what is not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from outrider.cache.base import CacheKind
from outrider.loop.draft.base import Ask
from outrider.loop.draft.none import NoDrafter
from outrider.loop.verify.pack import Part, pack
from outrider.models.base import NORMED
from outrider.types import DraftTree


@dataclass(eq=False)
class Recorded:
    """What one sequence was told, in the order of the text."""

    tokens: list[int]
    start: int | None = None
    fed: list[int] = field(default_factory=list)
    states: list[Tensor] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The position after the last one whose state was fed."""
        return (self.start or 0) + len(self.fed)


class Recording(NoDrafter):
    """Drafts what is known to come, tokens perhaps behind wrong siblings, and at last a wrong one."""

    name = "recording"
    speculates = True

    def __init__(
        self, features: tuple[int, ...], texts: Sequence[Sequence[int]], *, seed: int = 0, branch: bool = True
    ) -> None:
        self.features = features
        self._texts = [list(text) for text in texts]
        self._random, self._branch = random.Random(seed), branch
        self.seen: list[Recorded] = []

    def open(self, prompt: Sequence[int], tenant: str = "") -> Any:
        self.seen.append(Recorded(list(prompt)))
        return self.seen[-1]

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        return [self._tree(ask) for ask in asks]

    def _tree(self, ask: Ask) -> DraftTree:
        assert list(ask.tokens) == ask.state.tokens
        assert ask.state.end <= len(ask.tokens) - 1
        known = next((text for text in self._texts if text[: len(ask.tokens)] == ask.tokens), [])
        tokens: list[int] = []
        parents: list[int] = []
        at = -1
        for token in known[len(ask.tokens) :]:
            wrong = self._random.randint(0, 2) if self._branch and ask.branch else 0
            for guess in [*((token + 1 + n) % 97 for n in range(wrong)), token]:
                tokens.append(guess)
                parents.append(at)
            at = len(tokens) - 1
            if self._random.random() < 0.2:
                break
        tokens.append(0)
        parents.append(at)
        nodes = range(min(len(tokens), ask.budget))
        return DraftTree(tuple(tokens), tuple(parents)).subtree(nodes)

    def feed(self, state: Recorded, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        if state.start is None:
            state.start = start
        assert start == state.end, "calls follow each other without a gap"
        assert hidden.shape[:2] == (len(self.features), len(tokens))
        state.fed += tokens
        state.states.append(hidden.clone())

    def extend(self, state: Recorded, tokens: Sequence[int], kept: int) -> None:
        state.tokens += tokens
        assert not self.features or state.end == len(state.tokens) - 1, "all but the last were fed before"


class StatePage:
    """Hidden states of 64 tokens."""

    def __init__(self, states: Tensor) -> None:
        self.states = states
        self.nbytes = states.nbytes


class StateCache:
    """Keeps hidden states `[C, n, D]` as a head keeps keys and values: implements `Cache`."""

    can_rewind = True
    page_slots = 64
    copies_pages = True

    def __init__(self, pages: Sequence[StatePage] = ()) -> None:
        self.states = torch.cat([torch.zeros(3, 0, 48), *(page.states for page in pages)], dim=1)

    @property
    def length(self) -> int:
        return self.states.shape[1]

    @property
    def nbytes(self) -> int:
        return self.states.nbytes

    def bytes_with(self, rows: int) -> int:
        return 3 * 48 * 4 * (self.length + rows)

    def pages(self, count: int) -> list[StatePage]:
        assert 64 * count <= self.length
        return [StatePage(self.states[:, 64 * n : 64 * (n + 1)].clone()) for n in range(count)]

    def keep(self, rows: Sequence[int]) -> None:
        assert not rows

    def truncate(self, length: int) -> None:
        self.states = self.states[:, :length].clone()


class Keeping(Recording):
    """Keeps every state that it is fed in a cache of its own."""

    features = (2, NORMED, 0)

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        super().__init__(self.features, texts)
        self.caches = (CacheKind(StateCache, 10**6, of_states=True),)
        self.begun: list[int] = []

    def open(self, prompt: Sequence[int], tenant: str = "", caches: Sequence[Any] = ()) -> Any:
        recorded = super().open(prompt)
        recorded.cache, recorded.at = caches[0], caches[0].length
        self.begun.append(caches[0].length)
        return recorded

    def feed(self, state: Any, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        super().feed(state, start, tokens, hidden)
        assert start == state.cache.length
        state.cache.states = torch.cat([state.cache.states, hidden], dim=1)
        state.whole = state.cache.states

    def close(self, state: Recorded) -> None:
        state.cache.truncate(0)  # type: ignore[attr-defined]


def states_of(model: Any, text: Sequence[int], features: tuple[int, ...]) -> Tensor:
    """Return the states at every token of a text, of one pass over all of it."""
    batch = pack([Part(0, list(text), DraftTree(), False)])
    states: Tensor = model.run(batch, [model.new_cache()], captured=features).hidden
    return states


def check_recorded(model: Any, drafter: Recording, least: int = 0) -> None:
    """See that what was fed is the text, with the states of a single pass over it, bit for bit."""
    assert any(recorded.fed for recorded in drafter.seen)
    for recorded in drafter.seen:
        if recorded.fed:
            start, end = recorded.start or 0, recorded.end
            assert start >= least
            assert recorded.fed == recorded.tokens[start:end]
            expected = states_of(model, recorded.tokens[:end], drafter.features)[:, start:]
            assert torch.equal(torch.cat(recorded.states, dim=1), expected)
