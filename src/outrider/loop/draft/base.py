"""What a drafter is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from outrider.cache.base import Cache, CacheKind
from outrider.models.base import LoadedModel, Target
from outrider.sampling.draws import Draws
from outrider.sampling.params import SamplingParams
from outrider.sampling.processing import Processing
from outrider.types import DraftTree, Siblings


@dataclass(frozen=True, slots=True)
class Ask:
    """One sequence's request for a draft.

    `state` is what `Drafter.open` returned for it, `tokens` its committed tokens (to be read, not kept or
    changed), `budget` the most nodes wanted (at least 1; the context limit is already taken into account),
    `branch` whether siblings are allowed. `params`, `processing` and `draws` are how a drafter with a law
    draws its guesses: it makes `LogitLaws(logits, params, processing, path)`, with `path(row)` the guesses
    before a row, so that its law is under the same options as the target's. `siblings` is what the rule asks
    of drawn guesses, and `wants_laws` whether they must carry their laws. `costs [budget + 1]`: the time of a
    pass with n draft nodes over that of a pass with none, for n = 0 … budget; it begins with 1 and never
    falls. Empty means that nodes are free. `forced`: tokens that a grammar leaves little choice about; they
    are drafted whatever the drafter does. It may begin its own tree with them, and go on behind them.
    """

    state: Any
    tokens: Sequence[int]
    budget: int
    branch: bool
    params: SamplingParams
    draws: Draws
    processing: Processing | None = None
    siblings: Siblings = Siblings.ANY
    wants_laws: bool = True
    costs: Sequence[float] = ()
    forced: Sequence[int] = ()


class Rows(Protocol):
    """The target's rows for one tree: row 0 after the committed text, row i + 1 after node i."""

    def __len__(self) -> int: ...

    def likely(self, row: int, count: int) -> list[tuple[int, float]]:
        """Return up to `count` of a row's most likely tokens, the likeliest first.

        Each comes with the logarithm of how many times less likely than the first one it is, going by the
        bare logits, before any option of the request. Unlikely ones may be left out.
        """
        ...


class DrafterClass(Protocol):
    """What stands in the table of drafters."""

    takes_model: ClassVar[bool]
    """True when the text after the colon of `name:…` names a model to draft with."""

    def build(self, target: Target, model: LoadedModel | None, options: dict[str, Any]) -> Drafter:
        """Make a drafter for this target; unknown options are an OptionError."""
        ...


class MergingClass(Protocol):
    """What stands in the table of drafters and is made of others: `name:A+B`, or `name:A+lm:MODEL`.

    It has `takes_parts` set; those that can be parts have `is_part` set.
    """

    def merge(
        self, target: Target, model: LoadedModel | None, parts: Sequence[str], options: dict[str, Any]
    ) -> Drafter:
        """Make a drafter of these parts for this target; unknown options are an OptionError."""
        ...


class Drafter(Protocol):
    """Guesses continuations of many sequences at once.

    Life of a sequence: `open` with its prompt, then `propose` and `extend` in turn, then `close`. One that
    learns from the target's hidden states is fed those of the prompt as it is read, and those of what each
    step commits before it hears of that by `extend`.
    """

    name: str
    has_law: bool
    """True when it draws its guesses (at temperatures above 0) and can tell the law each was drawn from."""
    weighs_costs: bool
    """True when it cuts its drafts by `Ask.costs`, which are then measured."""
    speculates: bool
    """False for plain decoding, where nothing is drafted, not even what a grammar forces."""
    observes: bool
    """True when it learns from the target's own rows; `observe` is called only then, and only for drafts."""

    features: tuple[int, ...]
    """The hidden states of the target that it learns from: those after these layers, counted from 0, and
    `models.base.NORMED` for the last ones after the final norm. Where there are none, nothing is captured,
    and `feed` is never called.
    """

    caches: tuple[CacheKind, ...]
    """The caches that it keeps for every sequence; () where it keeps none.

    They count as the target's own do, and their pages are stored for texts that begin alike. So a cache holds
    the committed text as far as `extend` has told of it, and maybe guesses behind that.
    """

    def open(self, prompt: Sequence[int], tenant: str = "", caches: Sequence[Cache] = ()) -> Any:
        """Return the state of a new sequence whose committed text is `prompt`.

        What is learned across sequences is kept apart by `tenant`. `caches`: one of each kind in
        `Drafter.caches`, left out where that is (). They may hold the beginning of the prompt already; those
        made of the target's states (`CacheKind.of_states`) all as much of it, and `feed` begins right behind.
        """
        ...

    def propose(self, asks: Sequence[Ask]) -> list[DraftTree]:
        """Return one tree for each ask, each with at most its budget of nodes (none is an answer)."""
        ...

    def observe(self, state: Any, tree: DraftTree, rows: Rows) -> None:
        """Look at the target's rows for a draft that was asked for, where `observes`.

        What was committed comes next.
        """
        ...

    def feed(self, state: Any, start: int, tokens: Sequence[int], hidden: Tensor) -> None:
        """Take the target's hidden states at the next n tokens of the committed text.

        `tokens [n]` stand at the positions from `start` on, and `hidden [C, n, D]` holds their states in the
        order of `features`; it is to be read now or copied. Calls follow each other without a gap, from the
        first token that the target reads (0, or where what is stored of the prompt ends). The last committed
        token has not been run, so it comes with the next step, and with a first draft what is missing may be
        more: the end of the prompt is run together with it.
        """
        ...

    def extend(self, state: Any, tokens: Sequence[int], kept: int) -> None:
        """Learn what a step committed: `tokens`, of which the first `kept` came from the last draft."""
        ...

    def close(self, state: Any) -> None:
        """Free what `open` took, the caches that it was given included."""
        ...
