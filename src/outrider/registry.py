"""Lazy tables: a name to the place that implements it. One variant, one file, one line here.

Other packages add to a table through the entry-point group `outrider.<table>`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from outrider.errors import UnknownNameError


class Table(Mapping[str, str]):
    """Names of one kind of thing, each with the `module:attribute` that is imported when it is asked for."""

    def __init__(self, kind: str, group: str, entries: dict[str, str]) -> None:
        self.kind, self._group, self._own = kind, group, entries

    def _entries(self) -> dict[str, str]:
        found = {point.name: point.value for point in entry_points(group=f"outrider.{self._group}")}
        return {**found, **self._own}

    def __getitem__(self, name: str) -> str:
        if not isinstance(name, str):
            raise UnknownNameError(self.kind, name, self._entries())
        if name in self._own:
            return self._own[name]
        entries = self._entries()
        if name not in entries:
            raise UnknownNameError(self.kind, name, entries)
        return entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._entries()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())

    def load(self, name: str) -> Any:
        """Import and return what `name` stands for; UnknownNameError names the near ones."""
        module, _, attribute = self[name].partition(":")
        return getattr(importlib.import_module(module), attribute)


DRAFTERS = Table(
    "drafter",
    "drafters",
    {
        "none": "outrider.loop.draft.none:NoDrafter",
        "suffix": "outrider.loop.draft.suffix:SuffixDrafter",
        "recycle": "outrider.loop.draft.recycle:RecycleDrafter",
        "merged": "outrider.loop.draft.merged:MergedDrafter",
        "auto": "outrider.loop.draft.auto:AutoDrafter",
        "lm": "outrider.loop.draft.lm:ModelDrafter",
    },
)

RULES = Table(
    "rule",
    "rules",
    {
        "greedy": "outrider.loop.accept.greedy:Greedy",
        "coupled": "outrider.loop.accept.coupled:Coupled",
        "rejection": "outrider.loop.accept.rejection:Rejection",
        "recursive": "outrider.loop.accept.recursive:Recursive",
        "block": "outrider.loop.accept.block:Block",
        "traversal": "outrider.loop.accept.traversal:Traversal",
        "optimal": "outrider.loop.accept.optimal:Optimal",
    },
)

LOSSY_RULES = Table(
    "lossy rule",
    "lossy_rules",
    {
        "typical": "outrider.loop.accept.lossy.typical:Typical",
    },
)

FAMILIES = Table(
    "model family",
    "families",
    {
        "llama": "outrider.models.families.llama:LLAMA",
        "mistral": "outrider.models.families.mistral:MISTRAL",
        "qwen2": "outrider.models.families.qwen2:QWEN2",
        "qwen3": "outrider.models.families.qwen3:QWEN3",
    },
)

PEERS = Table(
    "peer",
    "peers",
    {
        "transformers": "outrider.bench.peers.transformers:TransformersPeer",
        "llama.cpp": "outrider.bench.peers.llama_cpp:LlamaCppPeer",
    },
)

SUITES = Table(
    "suite",
    "suites",
    {
        "own": "outrider.bench.suites:OWN",
    },
)

# In the order in which files are looked at; the first that recognises them reads them.
HEAD_SPELLINGS = Table(
    "spelling",
    "head_spellings",
    {
        "speculators": "outrider.heads.formats.speculators:SPECULATORS",
        "medusa-pt": "outrider.heads.formats.medusa_plain:MEDUSA_PT",
        "medusa": "outrider.heads.formats.medusa_plain:MEDUSA_SAFE",
        "medusa-vllm": "outrider.heads.formats.medusa_vllm:MEDUSA_VLLM",
        "specforge": "outrider.heads.formats.specforge:SPECFORGE",
        "sglang": "outrider.heads.formats.sglang:SGLANG",
        "eagle-vllm": "outrider.heads.formats.eagle_vllm:EAGLE_VLLM",
        "eagle": "outrider.heads.formats.eagle_plain:EAGLE",
    },
)
