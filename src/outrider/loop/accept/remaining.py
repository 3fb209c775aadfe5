"""What is left of the target's law at a node while the node's children are turned down one by one."""

from __future__ import annotations

from outrider.loop.accept.arithmetic import mass_left, positive_part, positive_part_of, without
from outrider.loop.accept.offers import WHOLE, Offer
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

    Unrolled, R is b · (c · p - q)+ without the tokens that were turned down, p the target's law and q the
    law that the drawn siblings share. So c, b and those tokens are all that is kept. One token's share is a
    matter of numbers; the vocabulary is gone through only where a sum is needed: when a child that may still
    pass follows one that was turned down, or when the node itself may be kept.
    """

    def __init__(self, laws: Laws, row: int, reach: Number = 1) -> None:
        self.bound = reach
        """At least `reach`, which only falls; known without any work."""
        self._laws, self._row = laws, row
        self._p: Law | None = None
        self._refused: list[Offer] = []
        self._begin()

    def _begin(self) -> None:
        self._q: Law | None = None
        self._scale: Number = 1  # c
        self._factor: Number = 1  # b
        self._gone: list[int] = []
        self._mass: Number | None = WHOLE  # of R / b, None until it is needed

    @property
    def reach(self) -> Number:
        """The chance with which the node is kept."""
        self._fold()
        self._sum()
        return self.bound

    @property
    def law(self) -> Law:
        """P, not normalised."""
        self._fold()
        self._sum()
        p = self._whole()
        if not self._gone:
            return p
        if self._q is None:
            return without(p, *self._gone)
        left = positive_part(p, self._q, self._scale)
        for token in self._gone:
            left[token] = 0  # type: ignore[index]
        return left

    def chance(self, offer: Offer) -> Number:
        """Return min(1, reach · P(x) / Q(x)); 0 where Q(x) is 0, since then x cannot have been drawn."""
        drawn = offer.probability()
        self._fold()
        if drawn <= 0 or self.bound <= 0 or offer.token in self._gone:
            return 0
        left = self._laws.probability(self._row, offer.token)
        if self._q is not None:
            left = positive_part_of(left, self._q, offer.token, self._scale)
        if left <= 0:
            return 0
        if self._gone:
            left /= self._sum()  # which lowers the bound
        return min(self.bound * left / drawn, 1)

    def turn_down(self, offer: Offer) -> None:
        """Take a child into account that was turned down. It was passed on with a chance below 1.

        The work is left until its result is asked for, which it often is not.
        """
        self._refused.append(offer)

    def _fold(self) -> None:
        refused, self._refused = self._refused, []
        for offer in refused:
            mass = self._sum()
            if self.bound <= 0:
                return
            share = self.bound / mass
            if offer.law is None:
                self._factor = share
            elif self._q is None:
                self._q, self._scale, self._factor = offer.law, share * offer.mass, 1 / offer.mass
            else:
                self._factor = share + 1 / offer.mass
                self._scale *= share / self._factor
            # A chance below 1 means R(x) = 0, up to rounding. So nothing is left of the drawn siblings before
            # either, and it does no harm that q still holds them.
            self._gone.append(offer.token)
            self._mass = None

    def _sum(self) -> Number:
        if self._mass is None:
            self._mass = mass_left(self._whole(), self._q, self._scale, self._gone)
            share = self._factor * self._mass
            if self.bound < 1:
                self.bound = share / (share + 1 - self.bound)
            elif share <= 0:
                # Only rounding, or a guess that Q excludes, can get here: nothing is left but must be.
                self._begin()
        assert self._mass is not None
        return self._mass

    def _whole(self) -> Law:
        if self._p is None:
            self._p = self._laws[self._row]
        return self._p
