"""outrider: exact speculative decoding for open language models. The same text, sooner."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outrider.engine.engine import Engine
    from outrider.engine.result import Chunk, Origin, Result
    from outrider.engine.scheduler import Limits
    from outrider.engine.service import Service
    from outrider.errors import LoadError, OutriderError, UsageError
    from outrider.llm import LLM, load
    from outrider.sampling.params import SamplingParams
    from outrider.types import Guarantee

__version__ = version("outrider")

# Imported when first used, so that `import outrider` and the command line's help don't wait for torch.
_PLACES = {
    "Chunk": "outrider.engine.result",
    "Engine": "outrider.engine.engine",
    "Guarantee": "outrider.types",
    "LLM": "outrider.llm",
    "Limits": "outrider.engine.scheduler",
    "LoadError": "outrider.errors",
    "Origin": "outrider.engine.result",
    "OutriderError": "outrider.errors",
    "Result": "outrider.engine.result",
    "SamplingParams": "outrider.sampling.params",
    "Service": "outrider.engine.service",
    "UsageError": "outrider.errors",
    "load": "outrider.llm",
}

__all__ = [
    "LLM",
    "Chunk",
    "Engine",
    "Guarantee",
    "Limits",
    "LoadError",
    "Origin",
    "OutriderError",
    "Result",
    "SamplingParams",
    "Service",
    "UsageError",
    "load",
]


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'outrider' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
