"""Do texts that were sampled many times follow their law?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import TypeVar

import scipy.stats

SIGNIFICANCE = 1e-4
FEWEST = 5
"""Expected draws of a class, below which Pearson's test is not to be trusted."""

Item = TypeVar("Item", bound=Hashable)


def follows(seen: Counter[Item], law: Mapping[Item, Fraction | float]) -> bool:
    """Tell whether draws follow a law, by Pearson's chi-square test at the level `SIGNIFICANCE`.

    The law need not be normalised. What is expected rarely is taken together, the rarest first, until it is
    expected `FEWEST` times. One draw of probability zero, or of what the law lacks, is enough to fail.
    """
    if any(not law.get(item) for item in seen):
        return False
    whole = float(sum(law.values()))
    expected, observed = [0.0], [0]
    for item, mass in sorted(law.items(), key=lambda pair: pair[1]):
        if mass and expected[-1] >= FEWEST:
            expected.append(0.0)
            observed.append(0)
        expected[-1] += float(mass) / whole * seen.total()
        observed[-1] += seen[item]
    scale = seen.total() / sum(expected)  # rounding only
    return bool(scipy.stats.chisquare(observed, [one * scale for one in expected]).pvalue > SIGNIFICANCE)
