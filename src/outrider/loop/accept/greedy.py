"""Greedy acceptance: keep a guess where it is the target's most likely token."""

from __future__ import annotations

from outrider.loop.accept.walk import walk
from outrider.sampling.draws import Draws
from outrider.types import Guarantee, Scored, Siblings, Verdict


class Greedy:
    """The rule of temperature 0: the path of the target's most likely tokens, as far as the tree holds it.

    Emits the tokens that plain greedy decoding emits, provided that the target gives a position the same
    logits in both (blockwise parallel decoding, Stern et al. 1811.03115).
    """

    name = "greedy"
    guarantee = Guarantee.SAME_TOKENS
    serves_trees = True
    siblings = Siblings.ANY
    reads_laws = False
    shares_noise = False
    samples = False

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        """Return the kept path and the most likely token after it."""
        return walk(scored.tree, lambda row, depth: scored.laws.mode(row))
