"""The machine that times are measured on."""

from __future__ import annotations

import platform
from pathlib import Path


def processor() -> str:
    """Return the name of this machine's processor, as exactly as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
