"""What an acceptance rule is."""

from __future__ import annotations

from typing import Protocol

from outrider.sampling.draws import Draws
from outrider.types import Guarantee, Scored, Siblings, Verdict


class Rule(Protocol):
    """Decides what is kept of one scored tree. Stateless; all randomness comes through `draws`."""

    name: str
    guarantee: Guarantee
    serves_trees: bool
    """False where the rule is defined on chains only."""
    siblings: Siblings
    """What the rule asks of a drafter that draws its guesses; deterministic guesses are exact anywhere."""
    reads_laws: bool
    """True when a drawn guess must carry the law it was drawn from."""
    shares_noise: bool
    """True when a drafter with a law must draw with the very noise that later draws the target's token."""
    samples: bool
    """False where the rule is defined at temperature 0 only."""

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        """Return the kept path and one more token. At least one token is always emitted."""
        ...
