"""The best possible use of a node's likeliest tokens and one draw from the rest."""

from __future__ import annotations

from outrider.loop.accept.offers import children, offers
from outrider.loop.accept.remaining import Remaining
from outrider.sampling.draws import Draws
from outrider.types import Guarantee, Scored, Siblings, Verdict


class Optimal:
    """An optimal coupling at each node of a tree, in closed form.

    Children are K - 1 tokens T chosen without a draw (best: the likeliest) and one token z drawn from q' over
    the others. z is tried first and passes with min(1, p(z) / q'(z)); else a token y is drawn from what is
    left, (p - q')+, which is p on T. If y is a child, the walk goes on from there. So a child is kept with
    the chance p(T) + Σ min(p, q') over the rest, and no coupling of p with these children keeps more: T can
    take the mass p(T) and no more, a draw from q' the sum and no more. The greedy construction of Hu et al.
    (2502.18779), worked out.

    Exact on any tree: further drawn siblings are tried in turn like those of `recursive`.
    """

    name = "optimal"
    guarantee = Guarantee.SAME_LAW
    serves_trees = True
    siblings = Siblings.TOP_AND_ONE
    reads_laws = True
    shares_noise = False
    samples = True

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        """Return the path of children that passed or were drawn, and the first token that is no child."""
        tree, below = scored.tree, children(scored.tree)
        path: list[int] = []
        row = 0
        while True:
            left = Remaining(scored.laws, row)
            for offer in offers(tree, (child for child in below[row] if tree.law(child) is not None)):
                if draws.accepts(left.chance(offer), offer.node):
                    kept = offer.node
                    break
                left.turn_down(offer)
            else:
                token = draws.token(left.law, len(path))
                guessed = (c for c in below[row] if tree.law(c) is None and tree.tokens[c] == token)
                child = next(guessed, None)
                if child is None:
                    return Verdict(tuple(path), token)
                kept = child
            path.append(kept)
            row = kept + 1
