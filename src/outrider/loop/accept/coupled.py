"""Coupled acceptance: draw the target's token as plain decoding would, keep a guess that is equal to it."""

from __future__ import annotations

from outrider.loop.accept.walk import walk
from outrider.sampling.draws import Draws
from outrider.types import Guarantee, Scored, Siblings, Verdict


class Coupled:
    """The target's token at every position comes from its own law and the position's own noise.

    So the text is the one that plain decoding emits with the same seed, whatever was drafted, how much of it,
    and in which tree. A drafter with a law draws with the same noise and therefore often agrees: with
    probability (1 - TV) / (1 + TV) or more (Daliri, Musco and Suresh, 2408.07978).
    """

    name = "coupled"
    guarantee = Guarantee.SAME_TOKENS
    serves_trees = True
    siblings = Siblings.ANY
    reads_laws = False
    shares_noise = True
    samples = True

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        """Return the path of the target's own draws that the tree holds, and the first one it lacks."""
        return walk(scored.tree, lambda row, depth: draws.token(scored.laws[row], depth))
