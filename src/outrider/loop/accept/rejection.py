"""Speculative sampling: accept a guess with probability min(1, p/q), else replace it from the residual."""

from __future__ import annotations

from outrider.loop.accept.arithmetic import acceptance_of, residual
from outrider.sampling.draws import Draws
from outrider.types import Guarantee, Scored, Siblings, Verdict


class Rejection:
    """Token-wise rejection sampling on a chain (Leviathan et al. 2211.17192; Chen et al. 2302.01318).

    Emits tokens with the target's joint distribution, provided that each guess was drawn from the law its
    node carries, or chosen without looking at the target's draws where it carries none, and that no guess was
    dropped because of which token it was. Accepts a sampled guess with probability 1 - TV, the most that is
    possible and more than the coupled rule does.
    """

    name = "rejection"
    guarantee = Guarantee.SAME_LAW
    serves_trees = False
    siblings = Siblings.WITHOUT_REPLACEMENT
    reads_laws = True
    shares_noise = False
    samples = True

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        """Return the guesses up to the first one turned down, and its replacement or the bonus token."""
        tree, laws = scored.tree, scored.laws
        assert tree.is_chain
        for node, token in enumerate(tree.tokens):
            q = tree.law(node)
            if not draws.accepts(acceptance_of(laws.probability(node, token), q, token), node):
                return Verdict(tuple(range(node)), draws.token(residual(laws[node], q, token), node))
        bonus = len(tree)
        return Verdict(tuple(range(bonus)), draws.token(laws[bonus], bonus))
