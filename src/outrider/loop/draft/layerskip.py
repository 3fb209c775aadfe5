"""The target drafts for itself, with some of its layers left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor

from outrider.cache.base import Cache, CacheKind
from outrider.config import cache_directory
from outrider.errors import CapabilityError, OptionError
from outrider.loop.draft.agreement import Agreement, prompts_for
from outrider.loop.draft.base import Ask, Rows
from outrider.loop.draft.level import LevelProbe, Share
from outrider.loop.draft.lm import model_drafter
from outrider.loop.draft.options import read_options
from outrider.loop.draft.partial import Loan, PartialModel, layered
from outrider.loop.draft.partial_probe import partial_probe
from outrider.loop.draft.rates import Rates
from outrider.loop.draft.remembered import ByTenant
from outrider.loop.draft.skip_options import LayerSkipOptions, checked, parse_layers
from outrider.loop.draft.skip_search import KeptSearch, Skips, cost_without, described, expected_gain, search
from outrider.models.base import LayeredTarget, LoadedModel, Target
from outrider.types import DraftTree

MEASURED_WEIGHT = 50.0
"""How many guesses of requests the measured rate of a set counts for, where sets may change."""


@dataclass(slots=True)
class SkipState:
    """One sequence: the set it drafts with, the state of what drafts, and its last draft."""

    set: int
    inner: Any
    rates: Rates
    drafted: DraftTree = field(default_factory=DraftTree)
    forced: int = 0

    @property
    def loan(self) -> Loan:
        """What its sequence's cache is lent to."""
        held = self.inner[0] if isinstance(self.inner, tuple) else self.inner
        assert isinstance(held.cache, Loan)
        return held.cache


class LayerSkipDrafter:
    """Drafts with the target's own weights and cache, without some layers (LayerSkip, arXiv 2404.16710; Draft
    & Verify, arXiv 2309.08168; without training).

    What is drafted, and when a draft ends, is as with a separate model (`ModelDrafter`, `ModelTreeDrafter`):
    laws under the request's own options, chances corrected by what came true. For the committed text the
    remaining layers read what whole passes wrote. Drafted rows are put behind it and are forgotten before the
    verifying pass. Nothing is drafted while more than the last committed token is still to be read: a partial
    pass over a prompt would cost more than it brings, and every row of committed text is a whole pass's.
    """

    name = "layerskip"
    has_law = True
    weighs_costs = True
    speculates = True
    observes = False
    features: tuple[int, ...] = ()
    caches: tuple[CacheKind, ...] = ()
    takes_model: ClassVar[bool] = False
    drafts_with_target: ClassVar[bool] = True

    def __init__(
        self,
        target: LayeredTarget,
        sets: Sequence[Skips],
        *,
        adapt: bool = False,
        width: int = 1,
        tree: str = "",
    ) -> None:
        """`sets`: what may be left out; the one of the highest gain is, unless they `adapt` to requests."""
        self.sets, self._adapt, self._target = tuple(sets), adapt, target
        self._drafters = [
            model_drafter(PartialModel(target, each.layers), target, width=width, tree=tree) for each in sets
        ]
        self._rates = ByTenant(lambda: Rates(MEASURED_WEIGHT))
        self.cost = self.sets[self._choose(Rates())].cost

    @classmethod
    def build(cls, target: Target, model: LoadedModel | None, options: dict[str, Any]) -> LayerSkipDrafter:
        """Make a drafter of the target; `model` is the target with its tokenizer.

        `options` are the fields of `LayerSkipOptions`. OptionError for layers that the target does not have,
        or for all of them; CapabilityError where it cannot leave layers out.
        """
        read = read_options(LayerSkipOptions, "layerskip", options)
        able = layered(target)
        if read.skip:
            layers = checked(parse_layers(read.skip), len(able.layer_bytes))
            sets = [Skips(layers, 1.0, cost_without(able, layers))]
        else:
            sets = _searched(able, model, read.search_passes)
        return cls(able, sets, adapt=read.adapt, width=read.width, tree=read.tree)

    @classmethod
    def fitted(cls, options: Mapping[str, Any], layers: int) -> dict[str, Any]:
        """Return options of a model for another one, of so many layers and without texts to search on."""
        others = {name: value for name, value in options.items() if name not in ("search_passes", "adapt")}
        return others if options.get("skip") == "none" else {**others, "skip": str(layers // 2)}

    def probe(self) -> LevelProbe:
        """Return what times passes without the layers of the best set."""
        skipped = self.sets[self._choose(Rates())].layers
        return partial_probe(self._target, skipped)

    def price(self, share: Share) -> None:
        """Take what steps without the layers of the best set cost; others cost more or less by bytes."""
        by_bytes, self.cost = self.cost, share(1)
        for each, drafter in zip(self.sets, self._drafters, strict=True):
            ratio = each.cost / by_bytes
            drafter.price(lambda nodes, ratio=ratio: ratio * share(nodes))  # type: ignore[misc]
        scale = self.cost / by_bytes
        self.sets = tuple(replace(each, cost=scale * each.cost) for each in self.sets)

    def open(self, prompt: Sequence[int], tenant: str = "", caches: Sequence[Cache] = ()) -> SkipState:
        """Choose the set of layers that this sequence drafts without."""
        rates = self._rates.of(tenant)
        number = self._choose(rates)
        return SkipState(number, self._drafters[number].open(prompt), rates)

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Return a chain or tree for each ask, one partial pass a level for all that leave out the same."""
        trees = [DraftTree()] * len(asks)
        read = [i for i, ask in enumerate(asks) if _cache(ask).length == len(ask.tokens) - 1]
        for number in sorted({asks[i].state.set for i in read}):
            chosen = [i for i in read if asks[i].state.set == number]
            for index, tree in zip(chosen, self._draft(number, [asks[i] for i in chosen]), strict=True):
                trees[index] = tree
        for ask, tree in zip(asks, trees, strict=True):
            ask.state.drafted, ask.state.forced = tree, len(ask.forced)
        return trees

    def observe(self, state: Any, tree: DraftTree, rows: Rows) -> None:
        """Learn nothing."""

    def feed(self, state: Any, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        """Learn nothing."""

    def extend(self, state: SkipState, tokens: Sequence[int], kept: int) -> None:
        """Take over what was committed."""
        self._drafters[state.set].extend(state.inner, tokens, kept)
        if self._adapt:
            self._learn(state, tokens)
        state.drafted = DraftTree()

    def close(self, state: SkipState) -> None:
        """Give back what an interrupted draft may have left on loan."""
        state.loan.give_back()
        self._drafters[state.set].close(state.inner)

    def _draft(self, number: int, asks: Sequence[Ask]) -> list[DraftTree]:
        loans = [ask.state.loan for ask in asks]
        try:
            for loan, ask in zip(loans, asks, strict=True):
                loan.lend(_cache(ask))
            return self._drafters[number].propose([_inner(ask) for ask in asks])
        finally:
            for loan in loans:
                loan.give_back()

    def _choose(self, rates: Rates) -> int:
        """Return the set of the highest expected gain, its measured rate corrected by what was accepted."""
        gains = [
            expected_gain(min(rates.rate(number, each.rate), 1.0), each.cost)
            for number, each in enumerate(self.sets)
        ]
        return gains.index(max(gains))

    def _learn(self, state: SkipState, tokens: Sequence[int]) -> None:
        """Note which guesses came true, up to the first that did not; forced tokens are no guesses."""
        node = -1
        for depth, token in enumerate(tokens):
            below = state.drafted.children(node)
            if not below:
                break
            node = next((child for child in below if state.drafted.tokens[child] == token), -2)
            if depth >= state.forced:
                state.rates.record(state.set, node >= 0)
            if node < 0:
                break


def _cache(ask: Ask) -> Cache:
    assert ask.cache is not None, "the loop lends the sequence's cache"
    return ask.cache


def _inner(ask: Ask) -> Ask:
    """Return the ask as what drafts with a model knows it."""
    return replace(ask, state=ask.state.inner)


def _searched(target: LayeredTarget, model: LoadedModel | None, passes: int) -> list[Skips]:
    """Return what a search finds, or found before, for each number of layers left out."""
    layers = len(target.layer_bytes)
    if layers < 2:
        raise CapabilityError("this model has one layer, and none can be left out; use another drafter")
    if model is None:
        raise OptionError("layers are searched on texts, which takes a tokenizer; name them: skip=8-14,20")
    prepared = f"layerskip {passes}"
    if prepared not in model.prepared:
        names = ("architecture", "parameters", "weights")
        subject = {name: str(model.details.get(name)) for name in names}
        subject |= {"model": model.name, "passes": str(passes)}
        kept = KeptSearch(subject, cache_directory("layers"))
        found = kept.read(layers)
        if found is None:
            found = search(Agreement(target, prompts_for(model.tokenizer)).rate, target, passes)
            kept.write(found)
        best = max(found, key=lambda each: each.gain)
        model.details.setdefault("notices", []).append(f"layerskip: {described(best)}")
        model.prepared[prepared] = found
    return list(model.prepared[prepared])
