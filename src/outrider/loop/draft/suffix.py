"""Guesses that the text repeats itself: copies what followed the last occurrence of its longest known end."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from outrider.cache.base import Cache, CacheKind
from outrider.loop.draft.automaton import SuffixAutomaton
from outrider.loop.draft.base import Ask, Rows
from outrider.loop.draft.copied import BUCKETS, LAST_BUCKET, PRIOR, CopiedText
from outrider.loop.draft.guess import Guesser
from outrider.loop.draft.options import check_range, read_options
from outrider.loop.draft.remembered import ByTenant, PastTexts, Reading, continuation
from outrider.loop.draft.tree import Chain, grow
from outrider.models.base import LoadedModel, Target
from outrider.types import DraftTree

PRIOR_WEIGHT = 8.0
"""How many observations the prior counts for."""
MEMORY = 0.99
"""What an observation still counts for when the next one of its bucket arrives."""
WAITING = 64
"""Most committed tokens that are left to be indexed with the next draft."""
SECOND_CHANCE = 0.65
"""Chance of an alternative once its betters failed, relative to a first guess of the same match length."""


@dataclass(frozen=True)
class SuffixOptions:
    """What can be set about the suffix drafter; a value out of its range is an OptionError."""

    min_match: int = 1
    """Shortest repeated suffix, in tokens, that is worth a guess (at least 1)."""
    max_nodes: int = 15
    """Most nodes in one draft, below the budget asked for (at least 1)."""
    threshold: float = 0.03
    """Least estimated chance of being kept for a node to be drafted, however little it costs (0 to 1)."""
    alternatives: int = 2
    """Most continuations beside the main one, where siblings are allowed (0 or more)."""
    past_tokens: int = 0
    """Most tokens of a tenant's past outputs to copy from as well (0: none)."""

    def __post_init__(self) -> None:
        check_range("suffix", "min_match", self.min_match, 1)
        check_range("suffix", "max_nodes", self.max_nodes, 1)
        check_range("suffix", "threshold", self.threshold, 0, 1)
        check_range("suffix", "alternatives", self.alternatives, 0)
        check_range("suffix", "past_tokens", self.past_tokens, 0)


def _bucket(length: int) -> int:
    return BUCKETS[length] if length < len(BUCKETS) else LAST_BUCKET


@dataclass(slots=True)
class HitRates:
    """How often the token copied after a match of a given length came true in one sequence.

    Every committed token is an observation, drafted or not, so the record does not depend on what was
    drafted. When d copied tokens come true, a match of length m has become one of m + d, so the same record
    tells the chance of the deeper tokens of a draft.
    """

    hits: list[float] = field(default_factory=lambda: [0.0] * (LAST_BUCKET + 1))
    tries: list[float] = field(default_factory=lambda: [0.0] * (LAST_BUCKET + 1))

    def record(self, length: int, hit: bool) -> None:
        """Note whether the token copied after a match of `length` came true."""
        bucket = _bucket(length)
        self.hits[bucket] = self.hits[bucket] * MEMORY + hit
        self.tries[bucket] = self.tries[bucket] * MEMORY + 1

    def rate(self, length: int) -> float:
        """Return the estimated chance that the token copied after a match of `length` comes true."""
        bucket = _bucket(length)
        return (self.hits[bucket] + PRIOR_WEIGHT * PRIOR[bucket]) / (self.tries[bucket] + PRIOR_WEIGHT)

    def survival(self, length: int, chance: float, count: int, floor: float) -> list[float]:
        """Return `chance` times the estimate that the first 1, 2, … copied tokens all come true.

        At most `count` values, and none below `floor`.
        """
        kept: list[float] = []
        while len(kept) < count:
            chance *= self.rate(length + len(kept))
            if chance < floor:
                break
            kept.append(chance)
        return kept


@dataclass(slots=True)
class SuffixState:
    """One sequence: the automaton over its committed tokens, and how good its guesses have been.

    The prompt, and after it a few committed tokens, are left aside until a draft is asked for: where nobody
    asks, they cost nothing, and where somebody does, they are read faster together than one by one.
    """

    prompt: Sequence[int] | None
    """None once it is indexed."""
    automaton: SuffixAutomaton = field(default_factory=SuffixAutomaton)
    waiting: list[int] = field(default_factory=list)
    """Tokens after those of the automaton, or of the prompt."""
    rates: HitRates = field(default_factory=HitRates)
    tenant: str = ""
    opened: int = 0
    """Tokens that it was opened with."""
    past: Reading | None = None
    """Where it stands in past texts, where those are copied from."""
    past_rates: HitRates = field(default_factory=HitRates)


class SuffixDrafter:
    """Copies what followed the most recent occurrence of the longest suffix seen before; needs no model.

    Deterministic, so its nodes carry no law and every rule stays exact whatever it guesses. How far it copies
    follows from the match length, from how often such guesses came true in this sequence, and from what a
    node costs: text that does not repeat itself is hardly drafted at all. Where siblings are allowed, other
    continuations of the match, or of shorter suffixes, take the place of deeper nodes that are less likely.

    The automaton as a drafter: SAM decoding (arXiv 2411.10666); a tree cut by estimated chance, and a store
    of past outputs (`past_tokens`): SuffixDecoding (arXiv 2411.04975). Unlike those, the copy starts from the
    most recent occurrence, runs on into itself past the text's end, and is cut by this sequence's own record.
    """

    name = "suffix"
    has_law = False
    weighs_costs = True
    speculates = True
    observes = False
    features: tuple[int, ...] = ()
    caches: tuple[CacheKind, ...] = ()
    takes_model: ClassVar[bool] = False
    is_part: ClassVar[bool] = True

    def __init__(self, options: SuffixOptions | None = None) -> None:
        self.options = SuffixOptions() if options is None else options
        self._past = ByTenant(lambda: PastTexts(self.options.past_tokens))

    @classmethod
    def build(cls, target: Target, model: LoadedModel | None, options: dict[str, Any]) -> SuffixDrafter:
        """Make the drafter; `options` are the fields of `SuffixOptions`, anything else is an OptionError."""
        return cls(read_options(SuffixOptions, "suffix", options))

    @classmethod
    def guesser(cls) -> Guesser:
        """Return what guesses alike, one token at a time, to share a tree with others."""
        return CopiedText(1 + SuffixOptions().alternatives)

    def open(self, prompt: Sequence[int], tenant: str = "", caches: Sequence[Cache] = ()) -> SuffixState:
        """Take the prompt; it is indexed with the first draft, in amortised constant time per token."""
        past = Reading(self._past.of(tenant), prompt) if self.options.past_tokens else None
        return SuffixState(array("i", prompt), tenant=tenant, opened=len(prompt), past=past)

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Return for each ask a copied chain, or a small tree of several; empty where nothing repeats."""
        for ask in asks:
            self.catch_up(ask.state)
        return [self._draft(ask.state, ask) for ask in asks]

    def observe(self, state: Any, tree: DraftTree, rows: Rows) -> None:
        """Learn nothing."""

    def feed(self, state: Any, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        """Learn nothing."""

    def extend(self, state: SuffixState, tokens: Sequence[int], kept: int) -> None:
        """Take committed tokens; they are learned with the next draft, or when there are many.

        Past texts change while this one grows, so where they are copied from nothing waits.
        """
        state.waiting += tokens
        if state.past is not None or len(state.waiting) >= WAITING:
            self.catch_up(state)

    def catch_up(self, state: SuffixState) -> None:
        """Add the tokens that wait, and note for each whether copying would have guessed it."""
        automaton = state.automaton
        if state.prompt is not None:
            automaton.extend(state.prompt)
            state.prompt = None
        waiting, state.waiting = state.waiting, []
        for token in waiting:
            length = automaton.match_length
            if length > 0:
                state.rates.record(length, automaton.text[automaton.match_end] == token)
            if state.past is not None and (match := state.past.match()) is not None:
                length, past, end = match
                state.past_rates.record(length, past.text[end] == token)
            automaton.extend((token,))
            if state.past is not None:
                state.past.follow(automaton.text)

    def close(self, state: SuffixState) -> None:
        """Remember the output, where past texts are copied from."""
        if state.past is not None:
            self.catch_up(state)
            self._past.of(state.tenant).add(state.automaton.text[state.opened :])

    def _draft(self, state: SuffixState, ask: Ask) -> DraftTree:
        budget = min(ask.budget, self.options.max_nodes)
        chains = self._chains(state, budget, 1 + self.options.alternatives if ask.branch else 1)
        return grow(chains, budget, ask.costs)

    def _chains(self, state: SuffixState, length: int, count: int) -> list[Chain]:
        """Return at most `count` continuations with the chance of each token, the later ones as alternatives.

        An alternative can only come true where those before it fail at their first token. Past texts come
        first where they hold a longer end of this one than it does itself.
        """
        automaton, rates, options = state.automaton, state.rates, self.options
        chains: list[Chain] = []
        left = 1.0
        match = None if state.past is None else state.past.match()
        if match is not None and match[0] > max(automaton.match_length, options.min_match - 1):
            found, past, end = match
            scores = state.past_rates.survival(found, 1.0, length, options.threshold)
            tokens = continuation(past, end, len(scores))
            chains.append((tokens, scores[: len(tokens)]))
            left -= state.past_rates.rate(found)
        for own, end in automaton.guesses(count):
            if own < options.min_match or len(chains) == count:
                break
            chance = left * SECOND_CHANCE if chains else 1.0
            scores = rates.survival(own, chance, length, options.threshold)
            chains.append((automaton.continuation(end, len(scores)), scores))
            left -= chance * rates.rate(own)
        return chains
