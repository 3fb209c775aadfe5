"""Recursive rejection sampling: siblings are tried one by one against what is left of the target's law."""

from __future__ import annotations

from outrider.loop.accept.offers import children, offers
from outrider.loop.accept.remaining import Remaining
from outrider.sampling.draws import Draws
from outrider.types import Guarantee, Scored, Siblings, Verdict


class Recursive:
    """Token-wise rejection on trees, from the top down.

    At each node the siblings are tried in the order they were drawn: x ~ Q passes with min(1, P(x) / Q(x)),
    else P becomes norm((P - Q)+). With replacement every Q is q (SpecInfer, Miao et al. 2305.09781); without,
    the tokens tried before are taken out of q (Sequoia, Chen et al. 2402.12374; Jeon et al. 2402.14160). A
    guess made without a draw is a Q of one token. On chains this is `rejection`.
    """

    name = "recursive"
    guarantee = Guarantee.SAME_LAW
    serves_trees = True
    siblings = Siblings.WITHOUT_REPLACEMENT
    reads_laws = True
    shares_noise = False
    samples = True

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        """Return the path of children that passed, and a token from what is left where none did."""
        tree, below = scored.tree, children(scored.tree)
        path: list[int] = []
        row = 0
        while True:
            left = Remaining(scored.laws, row)
            for offer in offers(tree, below[row]):
                if draws.accepts(left.chance(offer), offer.node):
                    break
                left.turn_down(offer)
            else:
                return Verdict(tuple(path), draws.token(left.law, len(path)))
            path.append(offer.node)
            row = offer.node + 1
