"""What a stream tells of its tokens and of the passes they came from, where that is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from outrider.engine.result import Chunk, Origin
from outrider.engine.stream import TextStream
from outrider.server.site import Site
from outrider.server.tokens import TokenTexts
from outrider.server.translate import Job
from outrider.types import PassTrace


class Trail:
    """Follows one sample: which of its passes emitted each token."""

    def __init__(self, site: Site, job: Job) -> None:
        self._job, self._texts = job, site.texts
        self._stream = TextStream(site.llm.model.tokenizer.decode)
        self._passes: list[PassTrace] = []
        self._told = 0
        """Passes that were told of."""
        self._at, self._depth = 0, 0
        """The pass that the next token came from, and its place there."""

    def next(self, chunks: Sequence[Chunk]) -> dict[str, Any]:
        """Return what there is to tell of new chunks; nothing where nothing was asked for."""
        if not (self._job.trail or self._job.trees):
            return {}
        found: dict[str, Any] = {}
        tokens = [pair for chunk in chunks for pair in zip(chunk.token_ids, chunk.origins, strict=True)]
        self._passes += [each for chunk in chunks for each in chunk.passes]
        last = len(tokens) - 1 if chunks[-1].result is not None else -1
        told = [
            self._token(token, origin, last=index == last) for index, (token, origin) in enumerate(tokens)
        ]
        if self._job.trail and told:
            found["trail"] = told
        if self._job.trees and self._told < len(self._passes):
            found["trees"] = [
                tree_of(number, self._passes[number], self._texts)
                for number in range(self._told, len(self._passes))
            ]
        self._told = len(self._passes)
        return found

    def _token(self, token: int, origin: Origin, *, last: bool) -> dict[str, Any]:
        while self._depth >= len(self._passes[self._at].emitted):
            self._at, self._depth = self._at + 1, 0
        came, depth = self._passes[self._at], self._depth
        self._depth += 1
        node = came.path[depth] if depth < len(came.path) else None
        return {
            "id": token,
            "text": self._stream.feed([token], last=last),
            "origin": origin,
            "drafter": None if node is None else came.authors[node],
            "probability": number(came.emitted_probabilities[depth]),
            "draft_probability": None if node is None else number(came.draft_probabilities[node]),
            "depth": depth + 1,
            "pass": self._at,
        }


def tree_of(index: int, came: PassTrace, texts: TokenTexts) -> dict[str, Any]:
    """Return what a pass drafted, node by node, and the token that the target added."""
    kept = frozenset(came.path)
    nodes = [
        {
            "id": token,
            "text": texts.text_of(token),
            "parent": parent,
            "kept": node in kept,
            "drafter": came.authors[node],
            "probability": None if came.probabilities is None else number(came.probabilities[node]),
            "draft_probability": number(came.draft_probabilities[node]),
        }
        for node, (token, parent) in enumerate(zip(came.tokens, came.parents, strict=True))
    ]
    added = None
    if len(came.emitted) > len(came.path):
        token, chance = came.emitted[-1], came.emitted_probabilities[-1]
        added = {"id": token, "text": texts.text_of(token), "probability": number(chance)}
    return {"pass": index, "nodes": nodes, "added": added}


def number(value: float | None) -> float | None:
    """Return a probability as JSON has it: rounded to 6 digits, None for NaN."""
    return None if value is None or math.isnan(value) else round(value, 6)
