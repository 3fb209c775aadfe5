"""One thing that an audit looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `detail` says what was compared, or what went wrong and where."""

    name: str
    passed: bool
    detail: str
