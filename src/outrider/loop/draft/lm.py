"""A separate draft model: its own cache, its own law, one pass of it for each level of the chain."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from outrider.cache.base import Cache, CacheKind
from outrider.errors import OptionError
from outrider.loop.draft.base import Ask, Drafter, Rows
from outrider.loop.draft.guess import BINS
from outrider.loop.draft.held import TreeReader
from outrider.loop.draft.level import LevelProbe, Share
from outrider.loop.draft.lm_tree import ModelTreeDrafter
from outrider.loop.draft.mixed import MixedGuesses
from outrider.loop.draft.options import check_range, read_options
from outrider.loop.draft.rates import Rates
from outrider.loop.draft.shape import parse_shape
from outrider.loop.draft.worth import worth_a_node, worth_a_pass
from outrider.loop.verify.pack import PROMPT_ROWS, Part, pack
from outrider.models.base import LoadedModel, Target
from outrider.sampling.law import LogitLaws
from outrider.sampling.threads import one_thread
from outrider.types import DraftTree, Law


@dataclass(frozen=True)
class ModelOptions:
    """What can be set about the drafter with a model; a value out of its range is an OptionError."""

    width: int = 1
    """Most nodes that one pass of the draft model continues, and most children of a node (at least 1)."""
    tree: str = ""
    """A fixed shape: children of a node level by level (4,2,1), or the parent of every node (-1,-1,0)."""

    def __post_init__(self) -> None:
        check_tree("lm", self.width, self.tree)


def check_tree(drafter: str, width: int, tree: str) -> None:
    """Raise OptionError for a width or a shape that cannot be drafted, or for both."""
    check_range(drafter, "width", width, 1, 64)
    if tree:
        parse_shape(tree)
        if width != 1:
            raise OptionError(f"{drafter} options 'width' and 'tree' exclude each other; leave one out")


@dataclass(slots=True)
class DraftState:
    """What the draft model holds of one sequence: its cache follows `tokens` up to `cache.length`."""

    cache: Cache
    tokens: list[int] = field(default_factory=list)
    rates: Rates = field(default_factory=Rates)
    """How often its guesses came true, by how sure it was."""
    last: list[tuple[int, int | None]] = field(default_factory=list)
    """Tokens of the last draft, each with the bin of its confidence; None where a grammar forced it."""

    def learn(self, tokens: Sequence[int]) -> None:
        """Note which guesses of the last draft came true, up to the first that did not."""
        for (guess, confidence), token in zip(self.last, tokens, strict=False):
            if confidence is not None:
                self.rates.record(confidence, guess == token)
            if guess != token:
                break
        self.last = []


class ModelDrafter:
    """Draws chains from a smaller model of the same vocabulary, under the request's own sampling options.

    Every node carries the law it was drawn from, where the rule reads it; at temperature 0 nothing is drawn.
    A chain ends where another pass of the draft model, or another row of the target's, is not worth its time,
    going by how sure the draft model was at each position, and how often it was right where it was so sure.
    Whether a position is drafted follows from the laws up to it and the tokens before it, never from the
    token drawn there, which no rule minds. Tokens that
    a grammar forces come first, without a pass or a draw, and the chain goes on behind them. `cost` is
    the time of a draft pass over that of a target pass.
    """

    name = "lm"
    has_law = True
    weighs_costs = True
    speculates = True
    observes = False
    features: tuple[int, ...] = ()
    takes_model: ClassVar[bool] = True
    is_part: ClassVar[bool] = True

    def __init__(self, model: Target, vocabulary: int, cost: float = 0.0) -> None:
        self._model = model
        self.caches: tuple[CacheKind, ...] = (CacheKind(model.new_cache, model.context_limit),)
        self._vocabulary = vocabulary
        self.cost = cost

    @classmethod
    def build(cls, target: Target, model: LoadedModel | None, options: dict[str, Any]) -> Drafter:
        """Make a drafter of a loaded model whose vocabulary was already compared with the target's.

        `options` are the fields of `ModelOptions`; with its defaults it drafts chains.
        """
        if model is None:
            raise OptionError("the drafter 'lm' needs a model: write lm:PATH")
        read = read_options(ModelOptions, "lm", options)
        if read.width == 1 and not read.tree:
            return cls(model.target, target.vocab_size, relative_cost(model.target, target))
        return model_drafter(model.target, target, width=read.width, tree=read.tree)

    @classmethod
    def beside(
        cls, target: Target, model: LoadedModel | None, guesses: MixedGuesses, *, width: int, name: str
    ) -> Drafter:
        """Make a drafter whose trees hold the guesses of others, too."""
        if model is None:
            raise OptionError("the drafter 'lm' needs a model: write lm:PATH")
        reader = TreeReader(model.target, target.vocab_size)
        cost = relative_cost(model.target, target)
        return ModelTreeDrafter(reader, cost, width=width, name=name, beside=guesses)

    def probe(self) -> LevelProbe:
        """Return what times its steps, by those of a tree, of which a chain is one."""
        return ModelTreeDrafter(TreeReader(self._model, self._vocabulary)).probe()

    def price(self, share: Share) -> None:
        """Take what a step costs beside a pass of the target over one row, as it was measured."""
        self.cost = share(1)

    def open(self, prompt: Sequence[int], tenant: str = "", caches: Sequence[Cache] = ()) -> DraftState:
        """Take the cache, or start one; what it lacks of the prompt is read with the first draft."""
        return DraftState(caches[0] if caches else self._model.new_cache(), list(prompt))

    def observe(self, state: Any, tree: DraftTree, rows: Rows) -> None:
        """Learn nothing."""

    def feed(self, state: Any, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        """Learn nothing."""

    def extend(self, state: DraftState, tokens: Sequence[int], kept: int) -> None:
        """Take over what was committed; `propose` has left the cache at the committed text."""
        state.tokens.extend(tokens)
        state.learn(tokens)
        # The cache holds the old text and the drafted tokens that were fed; those that were kept may stay.
        state.cache.truncate(min(state.cache.length, len(state.tokens) - len(tokens) + kept))

    def close(self, state: DraftState) -> None:
        """Free the cache, whatever an interrupted pass has left in it."""
        state.cache.keep(())
        state.cache.truncate(0)

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Return a chain for each ask, as long as it pays, as its budget and the draft model's context."""
        tokens = [list(ask.forced) for ask in asks]
        laws: list[list[Law | None]] = [[None] * len(t) for t in tokens]
        chances = [[1.0] * len(t) for t in tokens]
        bins: list[list[int | None]] = [[None] * len(t) for t in tokens]
        length = [min(ask.budget, self._model.context_limit - len(ask.state.tokens) + 1) for ask in asks]
        while going := [
            i
            for i, ask in enumerate(asks)
            if len(tokens[i]) < length[i] and worth_a_pass(chances[i], ask.costs, self.cost)
        ]:
            for index, found in zip(going, self._laws([asks[i] for i in going], tokens, going), strict=True):
                ask, depth = asks[index], len(tokens[index])
                with one_thread():
                    if found.is_dead_end(0):
                        length[index] = depth
                        continue
                    confidence = found.confidence(0)
                bins[index].append(int(BINS * confidence))
                rate = ask.state.rates.rate(bins[index][-1], confidence)
                chances[index].append(min(rate, 1.0))
                if not worth_a_node(chances[index], ask.costs, self.cost):
                    length[index] = depth
                    continue
                if ask.params.greedy:
                    tokens[index].append(found.mode(0))
                    laws[index].append(None)
                    continue
                with one_thread():
                    law = found[0]
                    tokens[index].append(ask.draws.token(law, depth))
                laws[index].append(law if ask.wants_laws else None)
        for ask, drafted, sure in zip(asks, tokens, bins, strict=True):
            ask.state.last = list(zip(drafted, sure, strict=False))
        return [
            DraftTree.chain(
                drafted,
                own if any(law is not None for law in own) else None,
                list(itertools.accumulate(likely[: len(drafted)], operator.mul)),
            )
            for drafted, own, likely in zip(tokens, laws, chances, strict=True)
        ]

    def _laws(self, asks: list[Ask], drafted: list[list[int]], going: list[int]) -> list[LogitLaws]:
        """Feed each sequence what its cache lacks and return the law after its last drafted token."""
        texts = [ask.state.tokens + drafted[index] for ask, index in zip(asks, going, strict=True)]
        for ask, text in zip(asks, texts, strict=True):  # a long prompt, in pieces, before the common pass
            cache = ask.state.cache
            while len(text) - cache.length > PROMPT_ROWS:
                piece = text[cache.length : cache.length + PROMPT_ROWS]
                self._model.forward(pack([Part(cache.length, piece, DraftTree(), False)]), [cache])
                cache.keep(range(len(piece)))
        caches = [ask.state.cache for ask in asks]
        parts = [
            Part(cache.length, text[cache.length :], DraftTree(), True)
            for cache, text in zip(caches, texts, strict=True)
        ]
        logits = self._fit(self._model.forward(pack(parts), caches))
        for cache, part in zip(caches, parts, strict=True):
            cache.keep(range(len(part.pending)))
        paths = [tuple(drafted[index]) for index in going]
        return [
            LogitLaws(logits[i : i + 1], ask.params, ask.processing, lambda _, path=path: path)  # type: ignore[misc]
            for i, (ask, path) in enumerate(zip(asks, paths, strict=True))
        ]

    def _fit(self, logits: Tensor) -> Tensor:
        """Return [W, V] over the target's V: vocabularies may be padded to different sizes."""
        missing = self._vocabulary - logits.shape[-1]
        return (
            F.pad(logits, (0, missing), value=float("-inf")) if missing > 0 else logits[:, : self._vocabulary]
        )


def model_drafter(
    model: Target, target: Target, *, width: int = 1, tree: str = ""
) -> ModelDrafter | ModelTreeDrafter:
    """Return what drafts with `model` for `target`: chains, or trees where a width or a shape is given."""
    cost = relative_cost(model, target)
    if width == 1 and not tree:
        return ModelDrafter(model, target.vocab_size, cost)
    shape = parse_shape(tree) if tree else ()
    return ModelTreeDrafter(TreeReader(model, target.vocab_size), cost, width=width, shape=shape)


def relative_cost(draft: Target, target: Target) -> float:
    """Return what a pass of the draft costs beside one of the target, by the weights that each reads.

    0 where one of them does not say.
    """
    ours, theirs = getattr(draft, "weight_bytes", 0), getattr(target, "weight_bytes", 0)
    return min(ours / theirs, 1.0) if theirs else 0.0
