"""Puts the known faults into the code one by one, in memory, and sees that the test named for each fails.

`python tests/faults/put_in.py [WORD…]` takes those whose area, words or test hold one of the given ones, or
all. Each runs in a forked process of its own, which reads the changed source in place of the file; no file is
touched.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import CodeType

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from faults import AREAS, Fault  # noqa: E402

PATIENCE = 300
"""Seconds after which a test is taken to hang."""


class FaultyLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from its source with the fault in it."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._text, self.path, "exec", dont_inherit=True)


class FaultyFinder(importlib.abc.MetaPathFinder):
    """Finds the modules that a fault changes, before anyone else does."""

    def __init__(self, fault: Fault) -> None:
        self._texts = {module_of(file): fault.faulty(file) for file in fault.files}

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> object:  # type: ignore[override]
        if name not in self._texts:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = FaultyLoader(name, spec.origin, self._texts[name])
        return spec


class FirstCounterexample:
    """Lets a property test end with the first counterexample, the same every time, not with the smallest."""

    def pytest_collection(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        parent = settings.get_profile("outrider")
        settings.register_profile("faults", parent, phases=phases, database=None, derandomize=True)
        settings.load_profile("faults")


def module_of(file: str) -> str:
    return "outrider." + file.removesuffix(".py").replace("/", ".")


def run(fault: Fault) -> int:
    """Return pytest's exit code with the fault put in: 1 where the test failed."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        quiet = os.open(os.devnull, os.O_WRONLY)
        if "SHOW_FAULTS" not in os.environ:
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
        code = 3
        try:
            import pytest

            sys.meta_path.insert(0, FaultyFinder(fault))
            file, _, name = fault.test.partition("::")
            node = f"{TESTS / file}::{name}"
            words = ["-x", "-q", "--tb=short", "-p", "no:cacheprovider", node]
            code = int(pytest.main(words, plugins=[FirstCounterexample()]))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    for _ in range(PATIENCE * 20):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, 9)
    os.waitpid(child, 0)
    return -1


def main(words: Sequence[str]) -> int:
    # What takes long to import is imported once: no plugin of pytest, and nothing of this package.
    import scipy.stats
    import tokenizers
    import torch

    assert all((scipy.stats, tokenizers, torch))
    assert not any(name.partition(".")[0] == "outrider" for name in sys.modules)
    chosen = [
        fault
        for area, faults in AREAS.items()
        for fault in faults
        if not words or any(word in text for word in words for text in (area, fault.what, fault.test))
    ]
    missed = []
    for fault in chosen:
        code = run(fault)
        verdict = "found" if code == 1 else f"NOT FOUND (exit code {code})"
        print(f"{verdict}: {fault.what}: {fault.test}", flush=True)
        missed += [fault] if code != 1 else []
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults found")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
