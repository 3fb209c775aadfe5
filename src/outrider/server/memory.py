"""How much memory a server takes for keys and values."""

from __future__ import annotations

import os
from pathlib import Path

from outrider.cache.prefix import PrefixStore
from outrider.engine.scheduler import Limits
from outrider.llm import LLM

PART = 4
"""By default one part in so many of the machine's memory."""


def limits_of(llm: LLM, memory: int | None, *, running: int, waiting: int) -> Limits:
    """Return the engine's limits, and have up to half of the memory keep prefixes for later requests.

    `memory`: bytes; None takes a part of the memory of the device that the model runs on.
    """
    most = _memory(str(llm.model.details.get("device", "cpu"))) // PART if memory is None else memory
    limits = Limits(running=running, waiting=waiting, cache_bytes=most)
    llm.prefixes = PrefixStore.of_pages_like(llm.model.target.new_cache(), most // 2)
    return limits


def _memory(device: str) -> int:
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(device)[0]
    sizes = (
        [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else [8 << 30]
    )
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        sizes.append(int(text))
    return min(sizes)
