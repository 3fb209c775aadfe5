"""How acceptance grows with a head's size and with the tokens it learned from: a law fitted to short runs.

At depth d a guess is kept with chance C_d (1 − A_d N^−s D^−t): N learned parameters, D tokens, and C_d what
the draft vocabulary leaves to be had, which is measured. So what is missing falls as a power of both, as the
loss of language models does (Hoffmann et al. 2022, arXiv 2203.15556), and the chance saturates at C_d. In
logarithms that is linear, and is fitted by least squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outrider.errors import TrainingError

LEAST_MISS = 1e-3
"""Of what can be had, what is taken to be missing at least: its logarithm is fitted."""
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Point:
    """What one run came to."""

    parameters: int
    """N: numbers of the head that are learned."""
    tokens: int
    """D: tokens of the target's that it learned from, each counted as often as that."""
    reach: tuple[float, ...]
    """C by depth."""
    kept: tuple[float, ...]
    """By depth, on held-out texts (see `Judgement`)."""


@dataclass(frozen=True, slots=True)
class Law:
    """A fitted law; see `fit`."""

    by_parameters: float
    """s; 0 where all runs had heads of one size."""
    by_tokens: float
    """t; where it is not above 0, more tokens were not seen to help."""
    left_out: float | None
    """Each run foretold by the law of the others: the root of the mean square of how far `kept` is off."""
    spread: float
    """Standard deviation of the fit's residuals, in the logarithm of what is missing."""
    _weights: Array
    _covariance: Array
    _centre: tuple[float, float]

    def kept(
        self, parameters: int, tokens: float, reach: Sequence[float], errors: float = 0.0
    ) -> tuple[float, ...]:
        """Return the chances by depth, `errors` standard errors of the forecast above what is likeliest.

        The runs' own spread is part of that error, that the law might be another one is not.
        """
        found = []
        for depth, most in enumerate(reach):
            row = _row(depth, len(reach), parameters, tokens, self._centre)
            error = self.spread * math.sqrt(1 + float(row @ self._covariance @ row))
            miss = math.exp(min(0.0, float(row @ self._weights) - errors * error))
            found.append(most * (1 - miss))
        return tuple(found)


def fit(points: Sequence[Point]) -> Law:
    """Fit the law to runs; TrainingError where they learned from too few different numbers of tokens.

    `left_out` is None where too few runs would be left without one.
    """
    if not _telling(points):
        raise TrainingError(
            "the short runs learned from the same number of tokens, so nothing tells how acceptance grows; "
            "give more --minutes or --epochs"
        )
    law = _fitted(points)
    others = [[*points[:i], *points[i + 1 :]] for i in range(len(points))]
    if not all(_telling(rest) for rest in others):
        return law
    squares = [
        (foretold - seen) ** 2
        for point, rest in zip(points, others, strict=True)
        for foretold, seen in zip(
            _fitted(rest).kept(point.parameters, point.tokens, point.reach), point.kept, strict=True
        )
    ]
    return Law(
        law.by_parameters,
        law.by_tokens,
        math.sqrt(math.fsum(squares) / len(squares)),
        law.spread,
        law._weights,
        law._covariance,
        law._centre,
    )


def _telling(points: Sequence[Point]) -> bool:
    """Tell whether a size was run with two numbers of tokens, so that both powers can be told apart."""
    sizes = {point.parameters for point in points}
    return any(len({point.tokens for point in points if point.parameters == size}) > 1 for size in sizes)


def _fitted(points: Sequence[Point]) -> Law:
    depths = len(points[0].kept)
    assert all(len(point.kept) == len(point.reach) == depths for point in points)
    centre = (
        math.fsum(math.log(point.parameters) for point in points) / len(points),
        math.fsum(math.log(point.tokens) for point in points) / len(points),
    )
    rows = np.array([_row(d, depths, p.parameters, p.tokens, centre) for p in points for d in range(depths)])
    missing = [max(LEAST_MISS, 1 - kept / c) for p in points for kept, c in zip(p.kept, p.reach, strict=True)]
    logs = np.log(np.array(missing))
    inverse = np.linalg.pinv(rows)  # sizes that are all one leave a column of zeros, and it a weight of 0
    weights = inverse @ logs
    free = len(logs) - int(np.linalg.matrix_rank(rows))
    spread = math.sqrt(float(((logs - rows @ weights) ** 2).sum()) / max(1, free))
    return Law(
        -float(weights[depths]),
        -float(weights[depths + 1]),
        None,
        spread,
        weights,
        inverse @ inverse.T,
        centre,
    )


def _row(depth: int, depths: int, parameters: int, tokens: float, centre: tuple[float, float]) -> Array:
    """Return what the logarithm of the missing part is linear in."""
    row = np.zeros(depths + 2)
    row[depth] = 1.0
    row[depths:] = math.log(parameters) - centre[0], math.log(tokens) - centre[1]
    return row
