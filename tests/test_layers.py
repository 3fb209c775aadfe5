"""Who may import whom: the rooms of the house, and the doors between them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "outrider"

EVERYONE = {"types", "errors", "registry", "config"}

ALLOWED: dict[str, set[str]] = {
    "types": set(),
    "errors": set(),
    "registry": {"errors"},
    "config": set(),
    "sampling": set(),
    "sampling.rows": {"sampling", "native"},
    "cache": set(),
    "models.base": {"cache.base"},
    "models": {"models", "cache"},
    "models.passes": {"models", "native"},
    "models.load": {"models", "cache"},
    "native": {"native", "models", "cache"},
    "native.eagle3": {"native", "heads"},
    "models.toy": {"models", "cache", "sampling"},
    "heads": {"models.config", "models.rope", "models.safetensors_source", "heads"},
    "heads.attend": {"models.attention"},
    "heads.passes": {"models.attention", "models.base", "cache", "heads"},
    "loop": set(),
    "loop.accept": {"sampling", "loop.accept"},
    "loop.draft": {"sampling", "models.base", "heads", "cache.base", "loop.draft", "loop.verify"},
    "loop.verify": {"sampling", "models.base", "cache.base", "loop.verify", "loop.sequence"},
    "loop.commit": {"sampling", "models.base", "cache.base", "loop.draft", "loop.commit", "loop.sequence"},
    "loop.sequence": {"sampling", "cache.base", "loop.accept", "loop.commit", "planner.breaker"},
    "loop.propose": {"models.base", "loop", "planner"},
    "loop.step": {"sampling", "models.base", "loop", "planner"},
    "planner": {"models.base", "cache.base", "planner"},
    "engine": {"loop", "cache", "models.base", "planner", "sampling", "engine"},
    "shipped": {"models.locate"},
    "draft_heads": {"heads", "models.base", "models.config", "native", "shipped"},
    "drafters": {"loop.draft", "models.base", "models.load", "models.compare", "draft_heads"},
    "prompts": set(),
    "pricing": {"drafters", "loop.draft", "models.base", "planner", "shipped"},
    "llm": {
        "cache",
        "drafters",
        "engine",
        "loop",
        "models.base",
        "models.load",
        "planner",
        "pricing",
        "prompts",
        "sampling",
    },
    "bench": {
        "cache.base",
        "engine",
        "llm",
        "models",
        "planner",
        "sampling",
        "loop.accept",
        "loop.draft",
        "drafters",
        "draft_heads",
        "bench",
    },
    "cli.chat": {"cache.prefix", "llm", "sampling", "cli"},
    "bench.audit.toy_heads": {"heads", "models.toy"},
    "bench.roofline": {"models", "planner", "native", "bench"},
    "train": {
        "bench.suites",
        "cache.base",
        "engine",
        "heads",
        "llm",
        "loop.draft",
        "models",
        "sampling",
        "train",
    },
    "server": {"cache.prefix", "engine", "llm", "loop.accept", "models.base", "sampling", "server"},
    "cli": {
        "train",
        "server",
        "drafters",
        "draft_heads",
        "heads.passes",
        "heads.exchange",
        "shipped",
        "engine",
        "llm",
        "models",
        "planner",
        "pricing",
        "sampling",
        "bench",
        "loop.accept",
        "cli",
    },
}


def imports_of(path: Path) -> Iterator[str]:
    """Yield the modules of this package that a file imports, without the package's own name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("outrider."):
                yield name.removeprefix("outrider.")


def room_of(module: str) -> str:
    """Return the most specific room in the table that a module belongs to."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        if ".".join(parts[:end]) in ALLOWED:
            return ".".join(parts[:end])
    return parts[0]


def files() -> list[Path]:
    return sorted(
        path
        for path in ROOT.rglob("*.py")
        if path.parent != ROOT or path.stem not in ("__init__", "__main__")
    )


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", files(), ids=module_of)
def test_a_file_imports_only_from_rooms_that_are_open_to_it(path: Path) -> None:
    room = room_of(module_of(path))
    assert room in ALLOWED, f"{module_of(path)} is in no room of the table"
    for imported in imports_of(path):
        open_to_all = imported.split(".")[0] in EVERYONE
        allowed = any(imported == door or imported.startswith(f"{door}.") for door in ALLOWED[room] | {room})
        assert open_to_all or allowed, f"{module_of(path)} ({room}) must not import outrider.{imported}"


@pytest.mark.parametrize("path", files(), ids=module_of)
def test_other_engines_are_imported_only_by_the_adapters_and_the_peer_benchmark(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    packages = {name.split(".")[0] for name in imported}
    if "transformers" in packages:
        assert module_of(path).startswith(("models.", "bench.peers.", "train.student"))
    if "cyllama" in packages:
        assert module_of(path).startswith("bench.peers.")
