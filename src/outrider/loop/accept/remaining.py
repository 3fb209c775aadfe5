"""What is left of the target's law at a node while the node's children are turned down one by one."""

from __future__ import annotations

from fractions import Fraction

from torch import Tensor

from outrider.loop.accept.arithmetic import mass, positive_part, probability, without
from outrider.loop.accept.offers import Offer
from outrider.types import Law, Laws, Number


class Remaining:
    """The law P of the token after a node, and the chance `reach` with which the node itself is kept.

    Both as they are once the children turned down so far are taken into account; at first P is the target's
    law. Where children are tried only below a node that is kept already, `reach` is 1 and stays 1.

    A child x ~ Q is passed on with the chance min(1, reach · P(x) / Q(x)). That uses up min(reach · P, Q) of
    the mass reach · P that the node must emit. When the child (with all below it) is turned down, which has
    the chance 1 - reach + s, the rest R = (reach · P - Q)+ with sum s must still be emitted; so from there
    the node is kept with the chance s / (s + 1 - reach), and then emits from R / s. This holds for any Q, so
    for each sibling in turn, whether drawn with or without replacement or not at all.
    """

    def __init__(self, laws: Laws, row: int, reach: Number = 1) -> None:
        self.bound = reach
        """At least `reach`, which only falls; known without any work."""
        self._laws, self._row = laws, row
        self._left: Law | None = None
        self._mass: Number = Fraction(1)  # exact beside rationals and floats alike
        self._refused: Offer | None = None

    @property
    def reach(self) -> Number:
        """The chance with which the node is kept."""
        self._settle()
        return self.bound

    @property
    def law(self) -> Law:
        """P, not normalised."""
        self._settle()
        return self._laws[self._row] if self._left is None else self._left

    def chance(self, offer: Offer) -> Number:
        """Return min(1, reach · P(x) / Q(x)); 0 where Q(x) is 0, since then x cannot have been drawn."""
        drawn, reach = offer.probability(), self.reach
        if drawn <= 0 or reach <= 0:
            return 0
        return min(reach * probability(self.law, offer.token) / self._mass / drawn, 1)

    def turn_down(self, offer: Offer) -> None:
        """Take a child into account that was turned down. It was passed on with a chance below 1.

        The work is left until its result is asked for, which it often is not.
        """
        self._settle()
        self._refused = offer

    def _settle(self) -> None:
        offer, self._refused = self._refused, None
        if offer is None:
            return
        law = self._laws[self._row] if self._left is None else self._left
        scale = self.bound / self._mass
        if offer.law is None:
            left = without(law, offer.token) if self._left is None else self._left
            _erase(left, offer.token)
            total = mass(left)
            share = scale * total
        else:
            own = self._left if isinstance(self._left, Tensor) else None
            left = positive_part(law, offer.law, scale, 1 / offer.mass, into=own)
            # A chance below 1 means R(x) = 0, up to rounding. So nothing is left of the siblings before
            # either, and it does no harm that `offer.law` still holds them.
            _erase(left, offer.token)
            total = share = mass(left)
        if self.bound < 1:
            self.bound = share / (share + 1 - self.bound)
        if total > 0:
            self._left, self._mass = left, total
        elif self.bound == 1:
            # Only rounding, or a guess that Q excludes, can get here: nothing is left but must be.
            self._left, self._mass = None, Fraction(1)


def _erase(law: Law, token: int) -> None:
    assert not isinstance(law, tuple)
    law[token] = 0  # type: ignore[index]
