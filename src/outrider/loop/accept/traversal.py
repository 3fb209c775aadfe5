"""Traversal verification: a tree is accepted from its leaves up, path by path."""

from __future__ import annotations

from collections.abc import Iterator

from outrider.loop.accept.offers import Offer, children, offers
from outrider.loop.accept.remaining import Remaining
from outrider.sampling.draws import Draws
from outrider.types import Guarantee, Scored, Siblings, Verdict


class Traversal:
    """Weng et al. 2505.12398, with the normaliser s / (s + 1 - reach) for which it is exact (see Remaining).

    Depth first, children in the order they were drawn: a node is reached with the chance that its parent
    passes on to it. Once all its children were turned down it is a leaf, and its own test decides: if it
    passes, the whole path to it is kept; else it is turned down in turn. On a chain this is `block`.
    """

    name = "traversal"
    guarantee = Guarantee.SAME_LAW
    serves_trees = True
    siblings = Siblings.WITHOUT_REPLACEMENT
    reads_laws = True
    shares_noise = False
    samples = True

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        """Return the first path, depth first, whose last node passes, and the token after it."""
        tree, below = scored.tree, children(scored.tree)
        path: list[Offer] = []
        rows: list[tuple[Remaining, Iterator[Offer]]] = [(Remaining(scored.laws, 0), offers(tree, below[0]))]
        while True:
            left, untried = rows[-1]
            offer = next(untried, None)
            if offer is not None:
                chance = left.chance(offer)
                if chance > 0:
                    row = offer.node + 1
                    path.append(offer)
                    rows.append((Remaining(scored.laws, row, chance), offers(tree, below[row])))
                else:  # nothing below it can be kept either
                    left.turn_down(offer)
                continue
            # The same number is compared with both, so the first comparison only saves work.
            node = path[-1].node if path else -1
            if not path or (draws.accepts(left.bound, node) and draws.accepts(left.reach, node)):
                return Verdict(tuple(kept.node for kept in path), draws.token(left.law, len(path)))
            rows.pop()
            rows[-1][0].turn_down(path.pop())
