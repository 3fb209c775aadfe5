"""Which layers a target leaves out when it drafts for itself: searched by agreement, kept on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.models.base import LayeredTarget

MOST_DRAFTED = 8
"""Longest chain that an expected gain is worked out for."""
TRIED = 8
"""Layers that are tried beside those left out so far, the least missed ones."""
GROWN_SHARE = 0.75
"""Share of the passes after which sets no longer grow; what is left goes into changing the best ones."""
LEAST_RATE = 0.3
"""Sets whose guesses are right less often are not grown further."""
_VERSION = 1
_log = logging.getLogger("outrider.layerskip")


@dataclass(frozen=True, slots=True)
class Skips:
    """Layers that are left out (ascending), and what was measured without them."""

    layers: tuple[int, ...]
    rate: float
    """Share of guesses that are right where those before them were (α)."""
    cost: float
    """Time of a draft pass over that of a whole pass, by the bytes that each reads."""

    @property
    def gain(self) -> float:
        """Expected speed over plain decoding, nodes of the verifying pass taken as free."""
        return expected_gain(self.rate, self.cost)


def expected_gain(rate: float, cost: float) -> float:
    """Return the speed over plain decoding with chains of the best length from 1 to 8.

    (1 + α + … + α^k) / (1 + k c): Leviathan et al. 2211.17192, theorem 3.8.
    """
    tokens, best = 1.0, 0.0
    for drafted in range(1, MOST_DRAFTED + 1):
        tokens += rate**drafted
        best = max(best, tokens / (1 + drafted * cost))
    return best


def cost_without(target: LayeredTarget, layers: Sequence[int]) -> float:
    """Return the cost of a pass without these layers over that of a whole one, by bytes read."""
    whole = target.weight_bytes
    return 1 - sum(target.layer_bytes[layer] for layer in layers) / whole if whole else 0.0


def search(
    rate: Callable[[Sequence[int]], float], target: LayeredTarget, passes: int, seed: int = 0
) -> list[Skips]:
    """Return for each number of layers left out the best set that was found, the smallest first.

    `rate` measures a set in one pass; at most `passes` sets are measured. Each layer alone comes first, then
    sets grow by the layer that is missed least among the next eight, as in a greedy search. The rest goes
    into random changes of the best sets, as in SWIFT (arXiv 2410.06916). The same `seed`, the same search.
    """
    count = len(target.layer_bytes)
    chance = random.Random(seed)
    best: dict[int, Skips] = {}
    seen: set[frozenset[int]] = {frozenset()}

    def measured(layers: frozenset[int]) -> float:
        seen.add(layers)
        ordered = tuple(sorted(layers))
        found = Skips(ordered, rate(ordered), cost_without(target, ordered))
        if len(ordered) not in best or found.rate > best[len(ordered)].rate:
            best[len(ordered)] = found
        return found.rate

    if count < 2:
        return []
    singles = {
        layer: measured(frozenset({layer})) for layer in chance.sample(range(count), min(count, passes))
    }
    order = sorted(singles, key=lambda layer: (-singles[layer], layer))
    while best[max(best)].rate >= LEAST_RATE and max(best) < count - 1:
        grown = frozenset(best[max(best)].layers)
        _log.info("%d of %d passes, %s", len(seen) - 1, passes, described(_best(best)))
        tried = [grown | {layer} for layer in order if layer not in grown][:TRIED]
        tried = tried[: max(0, int(GROWN_SHARE * passes) - len(seen) + 1)]
        if not tried:
            break
        for layers in tried:
            measured(layers)
    misses = 0
    while len(seen) <= passes and misses < passes:
        changed = _changed(frozenset(chance.choice(_leading(best)).layers), count, chance)
        misses += changed in seen
        if changed not in seen and 0 < len(changed) < count:
            measured(changed)
    _log.info("%d passes, %s", len(seen) - 1, described(_best(best)))
    return [best[size] for size in sorted(best)]


def described(skips: Skips) -> str:
    """Say which layers are left out, and what that brings."""
    layers = ",".join(map(str, skips.layers))
    return (
        f"without layers {layers} guesses are right {skips.rate:.0%} of the time for {skips.cost:.0%} of a "
        f"pass, expected speed {skips.gain:.2f} of plain decoding"
    )


def _best(found: Mapping[int, Skips]) -> Skips:
    return max(found.values(), key=lambda skips: skips.gain)


def _leading(found: Mapping[int, Skips]) -> list[Skips]:
    """Return the three sets of the highest gain."""
    return sorted(found.values(), key=lambda skips: -skips.gain)[:3]


def _changed(layers: frozenset[int], count: int, chance: random.Random) -> frozenset[int]:
    """Return the set with one layer less, one more, or one for another."""
    left_out, kept = sorted(layers), [layer for layer in range(count) if layer not in layers]
    move = chance.randrange(3)
    if move != 0 and kept:
        layers = layers | {chance.choice(kept)}
    if move != 1:
        layers = layers - {chance.choice(left_out)}
    return layers


class KeptSearch:
    """What a search found, kept in a directory for the next start.

    `subject` is whatever it depends on (model, weights, passes); the machine is not among it. `directory`
    None keeps nothing.
    """

    def __init__(self, subject: Mapping[str, str], directory: Path | None) -> None:
        self._path: Path | None = None
        if directory is not None:
            key = json.dumps({"version": _VERSION, **subject}, sort_keys=True)
            self._path = directory / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"

    def read(self, layers: int) -> list[Skips] | None:
        """Return what was found for a model of so many layers; None where nothing fit is kept."""
        if self._path is None:
            return None
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AssertionError):
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            found = [
                Skips(tuple(map(int, each["layers"])), float(each["rate"]), float(each["cost"]))
                for each in kept["found"]
            ]
            for each in found:
                assert 0 < len(each.layers) < layers
                assert all(0 <= layer < layers for layer in each.layers)
                assert 0 <= each.rate <= 1
                assert 0 <= each.cost <= 1
            assert found
            return found
        return None

    def write(self, found: Sequence[Skips]) -> None:
        """Keep it; a disk that takes nothing costs only the next search."""
        if self._path is None:
            return
        rows = [{"layers": each.layers, "rate": each.rate, "cost": each.cost} for each in found]
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._path.with_suffix(f".{time.time_ns()}")
            temporary.write_text(json.dumps({"found": rows}), encoding="utf-8")
            temporary.replace(self._path)
