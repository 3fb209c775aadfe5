"""Gives a core the rotation of positions as they are first needed."""

from __future__ import annotations

from outrider.models.config import RopeConfig
from outrider.models.rope import rotation
from outrider.native import _core


class Rotations:
    """The rotary positions of one core, of which there are at most `limit`; one thread at a time."""

    def __init__(self, core: _core.Decoder, rope: RopeConfig, limit: int) -> None:
        self._core, self._rope, self._limit = core, rope, limit
        self._positions = 0

    def reach(self, position: int) -> None:
        """Have the rotation of every position up to this one, but of none past the limit."""
        if position >= self._positions and self._positions < self._limit:
            cos, sin = rotation(self._rope, min(max(position + 1, 1), self._limit))
            cos, sin = cos[: self._limit], sin[: self._limit]
            self._core.set_rotation(cos.contiguous().numpy(), sin.contiguous().numpy())
            self._positions = len(cos)
