"""The children of a node as a rule meets them: one after another, each with the law it was drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from outrider.loop.accept.arithmetic import mass, probability
from outrider.types import DraftTree, Law, Number

WHOLE = Fraction(1)
"""The mass of a law that nothing is missing from, exact beside rationals and floats alike."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Draft node `node`, whose `token` was drawn from Q = law / mass, or chosen without a draw (law None).

    Tokens of siblings that were offered before it count as absent from Q where siblings are drawn without
    replacement; `law` still holds them, `mass` does not.
    """

    node: int
    token: int
    law: Law | None
    mass: Number

    def probability(self) -> Number:
        """Return Q(token), 1 for a guess without a draw."""
        if self.law is None:
            return 1
        drawn = probability(self.law, self.token)
        return drawn if self.mass is WHOLE else drawn / self.mass


def children(tree: DraftTree) -> list[list[int]]:
    """Return the children of each row: of the last committed token first, then of node 0, 1, …"""
    below: list[list[int]] = [[] for _ in range(len(tree) + 1)]
    for node, parent in enumerate(tree.parents):
        below[parent + 1].append(node)
    return below


def offers(tree: DraftTree, siblings: Iterable[int]) -> Iterator[Offer]:
    """Yield siblings in their order, each as drawn after those before it were turned down."""
    left: Number = WHOLE
    before: tuple[Law, int] | None = None  # the drawn sibling before
    first = True
    for node in siblings:
        token, law = tree.tokens[node], tree.law(node)
        if law is None:
            yield Offer(node, token, None, WHOLE)
            continue
        if before is not None and not tree.replaced:
            # The law's own sum, for what is left of a peaked law is small against the rounding of 1. It is
            # taken once there is a second sibling: most are never asked for.
            left = (mass(law) if first else left) - probability(*before)
            first = False
        # Rounding must not leave less than the token that was drawn from what was left.
        yield Offer(node, token, law, left if first else max(left, probability(law, token)))
        before = law, token
