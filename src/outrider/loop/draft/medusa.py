"""Drafts with Medusa heads: each guesses one later token from the target's last hidden state.

Cai et al. 2024 (arXiv 2401.10774), section 2.1, with trees that grow best first by each request's own record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from outrider.cache.base import Cache, CacheKind
from outrider.errors import CapabilityError, OptionError
from outrider.heads.medusa import MedusaHeads
from outrider.loop.draft.held import Branches
from outrider.loop.draft.level import LevelProbe, Share
from outrider.loop.draft.lm_tree import ModelTreeDrafter
from outrider.loop.draft.mixed import MixedGuesses
from outrider.loop.draft.options import check_range, read_options
from outrider.loop.draft.shape import Shape, parse_shape
from outrider.models.base import NORMED, Target


@dataclass(frozen=True)
class MedusaOptions:
    """What can be set about the drafter with Medusa heads; a value out of its range is an OptionError."""

    width: int = 4
    """Most nodes that are continued in one level, and most children of a node (1 to 64)."""
    tree: str = ""
    """A fixed shape: children of a node level by level (4,2,1), or the parent of every node (-1,-1,0)."""

    def __post_init__(self) -> None:
        check_range("medusa", "width", self.width, 1, 64)
        if self.tree:
            parse_shape(self.tree)


@dataclass(slots=True)
class Foreseen:
    """One sequence: the committed text, and the target's last state [D] before its last token."""

    tokens: list[int]
    state: Tensor | None = None
    end: int = 0
    """The position after that of the state."""
    logits: Tensor | None = None
    """Of all heads after that state, [K, Vd]; None where they were not asked for."""
    round: Any = None

    @property
    def ready(self) -> bool:
        """True where the state is that of the last token but one."""
        return self.state is not None and self.end == len(self.tokens) - 1

    def commit(self, tokens: Sequence[int]) -> None:
        """Take over committed tokens."""
        self.tokens += tokens

    def rewind(self) -> None:
        """Forget what the heads gave: they ran for one draft."""
        self.logits = None

    def close(self) -> None:
        """Free nothing: no cache is kept."""


class MedusaReader:
    """Tells the law of a node by its depth: whatever the path to it, the head is the same."""

    def __init__(self, heads: MedusaHeads, context_limit: int) -> None:
        self._heads, self.context_limit = heads.eval(), context_limit
        self.levels = heads.config.heads
        self.target_ids, self.vocab_size = heads.target_ids, heads.config.vocab_size
        self.caches: tuple[CacheKind, ...] = ()

    def begin(self, prompt: Sequence[int], caches: Sequence[Cache] = ()) -> Foreseen:
        """Start a sequence; states of the target are still to come."""
        return Foreseen(list(prompt))

    @torch.inference_mode()
    def read(self, wants: Sequence[tuple[Foreseen, Branches, Sequence[int]]]) -> list[Tensor]:
        """See `Reader.read`. The heads run once for a draft, for all sequences together."""
        new = [foreseen for foreseen, _, _ in wants if foreseen.logits is None]
        if new:
            states = torch.stack([foreseen.state for foreseen in new if foreseen.state is not None])
            logits = self._heads(states)  # [K, B, Vd]
            for index, foreseen in enumerate(new):
                foreseen.logits = logits[:, index]
        results = []
        for foreseen, branches, chosen in wants:
            assert foreseen.logits is not None
            results.append(foreseen.logits[[len(branches.path(node)) for node in chosen]])
        return results


class MedusaDrafter(ModelTreeDrafter):
    """Drafts trees with Medusa heads: the tree grows where the likeliest nodes are, or has a fixed shape.

    A head's law does not depend on the tokens before it in the draft, so its guesses fit together less well
    the deeper they stand; how often each came true is learned for every request. Nothing is drafted in the
    step that reads the end of the prompt.
    """

    takes_model: ClassVar[bool] = True
    takes_head: ClassVar[bool] = True
    is_part: ClassVar[bool] = True

    def __init__(
        self,
        heads: MedusaHeads,
        target: Target,
        *,
        width: int = MedusaOptions.width,
        shape: Shape = (),
        name: str = "medusa",
        beside: MixedGuesses | None = None,
    ) -> None:
        reader = MedusaReader(heads, target.context_limit)
        super().__init__(reader, width=width, shape=shape, levels=reader.levels, name=name, beside=beside)
        self.features = (NORMED,)
        self._hidden_size = heads.config.hidden_size

    @classmethod
    def build(cls, target: Target, model: MedusaHeads | None, options: dict[str, Any]) -> MedusaDrafter:
        """Make a drafter of heads that fit this target; `options` are the fields of `MedusaOptions`."""
        read = read_options(MedusaOptions, "medusa", options)
        shape = parse_shape(read.tree) if read.tree else ()
        return cls(_needed(model), target, width=read.width, shape=shape)

    @classmethod
    def beside(
        cls, target: Target, model: MedusaHeads | None, guesses: MixedGuesses, *, width: int, name: str
    ) -> MedusaDrafter:
        """Make a drafter whose trees hold the guesses of others, too."""
        return cls(_needed(model), target, width=width, name=name, beside=guesses)

    def probe(self) -> LevelProbe:
        """Return what times a pass of all heads, of which a draft makes one; CapabilityError for one head."""
        if self._levels < 2:
            raise CapabilityError("a single Medusa head makes one level at once; there are no steps to time")

        def begin(tokens: list[int]) -> Foreseen:
            return Foreseen(tokens, torch.zeros(self._hidden_size), len(tokens) - 1)

        return LevelProbe(self, self._reader, begin)

    def price(self, share: Share) -> None:
        """Leave levels free: the heads run once for all of them."""

    def feed(
        self, state: tuple[Foreseen, Any, Any], start: int, tokens: Sequence[int], hidden: Tensor
    ) -> None:
        """Take the target's last states [1, n, D]: the last of them counts."""
        foreseen = state[0]
        foreseen.state, foreseen.end, foreseen.logits = hidden[0, -1].clone(), start + len(tokens), None


def _needed(heads: MedusaHeads | None) -> MedusaHeads:
    if heads is None:
        raise OptionError("the drafter 'medusa' needs heads: write medusa:PATH")
    return heads
