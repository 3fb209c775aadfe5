"""Tests of the native pass, which are left out where it was not built."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from outrider.native import why_missing


def use_module_from(directory: str) -> None:
    """Put a module that was built elsewhere, with sanitizers say, in the place of the installed one."""
    name = "outrider.native._core"
    spec = importlib.util.spec_from_file_location(name, next(Path(directory).glob("_core*.so")))
    assert spec is not None
    assert spec.loader is not None
    assert name not in sys.modules
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


if "OUTRIDER_CORE" in os.environ:
    use_module_from(os.environ["OUTRIDER_CORE"])

if why_missing() is None:
    from outrider.native.decoder import NativeDecoder

    NativeDecoder.most_threads = 64  # tests ask for more threads than there are processors

collect_ignore_glob = ["test_*.py"] if why_missing() else []
