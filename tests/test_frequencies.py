"""The helper that compares counts with a law."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from frequencies import follows

LAW = {
    "a": Fraction(6, 10),
    "b": Fraction(3, 10),
    **{letter: Fraction(1, 100) for letter in "cdefghijkl"},
    "z": 0,
}


def test_counts_that_follow_the_law_pass_and_others_fail() -> None:
    seen = Counter(a=60, b=30, c=1, d=2, e=3, f=1, g=1, h=2)
    assert follows(seen, LAW)
    assert follows(seen, {item: 7 * mass for item, mass in LAW.items()})
    assert not follows(Counter(a=90, b=10), LAW)
    assert not follows(Counter(a=60, b=5, c=35), LAW), "rare ones are not left out"


def test_one_impossible_draw_is_enough() -> None:
    seen = Counter(a=60, b=30, c=10)
    assert not follows(seen + Counter("z"), LAW)
    assert not follows(seen + Counter("y"), LAW)
