"""Times the steps of a target that drafts for itself."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.loop.draft.held import Held, TreeReader
from outrider.loop.draft.level import LevelProbe
from outrider.loop.draft.lm_tree import ModelTreeDrafter
from outrider.loop.draft.partial import Loan, PartialModel
from outrider.loop.verify.pack import PROMPT_ROWS, Part, pack
from outrider.models.base import LayeredTarget
from outrider.types import DraftTree


def partial_probe(target: LayeredTarget, skipped: Sequence[int]) -> LevelProbe:
    """Return what times levels drafted without some layers, behind a text that whole passes have read."""
    reader = TreeReader(PartialModel(target, skipped), target.vocab_size)

    def begin(tokens: list[int]) -> Held:
        cache, loan = target.new_cache(), Loan()
        while (left := len(tokens) - 1 - cache.length) > 0:
            piece = tokens[cache.length : cache.length + min(left, PROMPT_ROWS)]
            target.forward(pack([Part(cache.length, piece, DraftTree(), False)]), [cache])
            cache.keep(range(len(piece)))
        loan.lend(cache)
        return Held(loan, tokens)

    return LevelProbe(ModelTreeDrafter(reader), reader, begin)
