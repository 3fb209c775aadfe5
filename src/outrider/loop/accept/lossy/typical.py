"""Typical acceptance: keep a guess that the target finds plausible enough, drawn by whatever law."""

from __future__ import annotations

import math

from outrider.sampling.draws import Draws
from outrider.types import Guarantee, Scored, Siblings, Verdict

EPSILON, DELTA = 0.3, 0.09
"""Thresholds of Cai et al. 2401.10774, at the values of their implementation."""


class Typical:
    """Medusa's rule (2401.10774): x passes where p(x) > min(ε, δ · exp(-H(p))), H the entropy in nats.

    The longest path whose nodes all pass is kept, the first of equals, and one token is drawn from the
    target's law after it. The text leans towards what the drafter proposes; nothing bounds how far. At
    temperature 0 only the target's own token passes, so the text is that of `greedy`.
    """

    name = "typical"
    guarantee = Guarantee.LOSSY
    serves_trees = True
    siblings = Siblings.ANY
    reads_laws = False
    shares_noise = False
    samples = True

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        """Return the longest path of plausible tokens, and a token of the target's after it."""
        tree, laws = scored.tree, scored.laws
        thresholds: dict[int, float] = {}
        paths: dict[int, tuple[int, ...]] = {-1: ()}
        for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
            if parent not in paths:
                continue
            chance = laws.probability(parent + 1, token)
            # No entropy is below 0, so above DELTA there is no need to know it.
            if chance <= min(EPSILON, DELTA):
                if parent not in thresholds:
                    thresholds[parent] = min(EPSILON, DELTA * math.exp(-laws.entropy(parent + 1)))
                if chance <= thresholds[parent]:
                    continue
            paths[node] = (*paths[parent], node)
        path = max(paths.values(), key=len)
        return Verdict(path, draws.token(laws[path[-1] + 1 if path else 0], len(path)))
