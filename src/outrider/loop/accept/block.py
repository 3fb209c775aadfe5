"""Block verification: a chain is accepted as a whole, so that a lucky token makes up for an unlucky one."""

from __future__ import annotations

from outrider.loop.accept.offers import offers
from outrider.loop.accept.remaining import Remaining
from outrider.sampling.draws import Draws
from outrider.types import Guarantee, Number, Scored, Siblings, Verdict


class Block:
    """Sun et al. 2403.10444: of all rules that know p and q on the drafted path, the one that keeps most.

    P_0 = 1 and P_i = min(P_{i-1} · p_i(x_i) / q_i(x_i), 1). With S_i the sum of (P_i · p_{i+1} - q_{i+1})+,
    guess i passes with the chance S_i / (S_i + 1 - P_i), the last one with P_g. The longest prefix whose last
    guess passes is kept, whatever became of those before it. The token after it comes from
    (P_i · p_{i+1} - q_{i+1})+, the bonus token from p_{g+1}.
    """

    name = "block"
    guarantee = Guarantee.SAME_LAW
    serves_trees = False
    siblings = Siblings.WITHOUT_REPLACEMENT
    reads_laws = True
    shares_noise = False
    samples = True

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        """Return the longest prefix that passes its test, and the token after it."""
        tree, laws = scored.tree, scored.laws
        assert tree.is_chain
        guesses = [next(offers(tree, [node])) for node in range(len(tree))]
        reach: list[Number] = [1]
        for node, guess in enumerate(guesses):
            chance = Remaining(laws, node, reach[node]).chance(guess)
            if chance == 0:
                break  # nor is any longer prefix kept
            reach.append(chance)
        for kept in reversed(range(len(reach))):
            left = Remaining(laws, kept, reach[kept])
            if kept < len(tree):
                left.turn_down(guesses[kept])
            # The same number is compared with both, so the first comparison only saves work.
            last = kept - 1
            if kept == 0 or (draws.accepts(left.bound, last) and draws.accepts(left.reach, last)):
                return Verdict(tuple(range(kept)), draws.token(left.law, kept))
        raise AssertionError("the empty prefix is always kept")
