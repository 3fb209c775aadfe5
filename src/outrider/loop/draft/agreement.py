"""How often a target that leaves layers out names the token that the whole target emits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from outrider.cache.base import Cache
from outrider.loop.verify.pack import Part, pack
from outrider.models.base import LayeredTarget, Target, Tokenizer
from outrider.types import DraftTree

PROMPTS = (
    "Tell me how a lighthouse works, from the lamp to what a sailor sees, in a few plain paragraphs.",
    "Write a Python function that groups a list of words by their first letter, and explain each line of it.",
    "A baker sells 14 loaves in the morning and 9 more after lunch, at 3 coins each. How many coins is that? "
    "Work it out step by step.",
    "Write the beginning of a story about two sisters who find a locked door in their grandmother's garden.",
)
"""What the target is asked before it writes the text that choices of layers are measured on."""
MOST_PROMPT, WRITTEN = 64, 64
"""Tokens of each prompt, and of each answer."""
APART, DEPTH = 16, 12
"""A draft begins after every `APART` tokens of an answer; this many of its tokens are looked at."""


def prompts_for(tokenizer: Tokenizer) -> list[list[int]]:
    """Return a few prompts in tokens, as the user's message where there is a chat template."""
    if tokenizer.has_chat_template:
        return [tokenizer.chat([{"role": "user", "content": text}]) for text in PROMPTS]
    return [tokenizer.encode(text) for text in PROMPTS]


class Agreement:
    """Measures choices of layers on the target's own greedy answers, each choice in one pass.

    Drafts begin at several places of every answer. As in drafting, their rows find the keys and values of a
    whole pass for the text before them, and those of the partial pass for the drafted tokens, which are the
    right ones. So what is counted is how often a guess is right where those before it were.
    """

    def __init__(self, target: LayeredTarget, prompts: Sequence[Sequence[int]]) -> None:
        """Let the target answer; whatever follows the end of a turn counts as text, too."""
        self._target = target
        room = target.context_limit
        shortened = [list(prompt[-min(MOST_PROMPT, max(1, room // 2)) :]) for prompt in prompts]
        parts: list[Part] = []
        expected: list[int] = []
        self._caches: list[Cache] = []
        for prompt, (text, cache) in zip(shortened, _answers(target, shortened, room), strict=True):
            for start in range(len(prompt), len(text) - 1, APART):
                rows = text[start : min(start + DEPTH, len(text) - 1)]
                parts.append(Part(start, rows, DraftTree(), True, all_pending=True))
                expected += text[start + 1 : start + 1 + len(rows)]
                self._caches.append(_begun(target, cache, text[:start]))
        self._batch = pack(parts)
        self._expected = torch.tensor(expected)

    def rate(self, skipped: Sequence[int]) -> float:
        """Return the share of guesses that are right without these layers, in one pass; 0 where the context
        is too short for any.
        """
        if not self._caches:
            return 0.0
        kept = [layer for layer in range(len(self._target.layer_bytes)) if layer not in skipped]
        logits = self._target.run(self._batch, self._caches, layers=kept).logits
        for cache in self._caches:
            cache.keep(())
        return float((logits.argmax(-1).cpu() == self._expected).float().mean())


def _answers(target: Target, prompts: Sequence[Sequence[int]], room: int) -> list[tuple[list[int], Cache]]:
    """Return each prompt with its greedy answer, and the cache, which holds all of it but the last token."""
    texts = [list(prompt) for prompt in prompts]
    caches = [target.new_cache() for _ in texts]
    for _ in range(min(WRITTEN, room - max(map(len, texts)))):
        pending = [text[cache.length :] for text, cache in zip(texts, caches, strict=True)]
        parts = [
            Part(cache.length, tokens, DraftTree(), True)
            for cache, tokens in zip(caches, pending, strict=True)
        ]
        chosen: Tensor = target.forward(pack(parts), caches).argmax(-1)
        for text, cache, tokens, token in zip(texts, caches, pending, chosen.tolist(), strict=True):
            cache.keep(range(len(tokens)))
            text.append(token)
    return list(zip(texts, caches, strict=True))


def _begun(target: Target, whole: Cache, text: Sequence[int]) -> Cache:
    """Return a cache of `text`, with which `whole` begins; pages are taken from there."""
    slots = whole.page_slots
    cache = target.new_cache(whole.pages(len(text) // slots) if slots else ())
    missing = text[cache.length :]
    if missing:
        target.forward(pack([Part(cache.length, missing, DraftTree(), False)]), [cache])
        cache.keep(range(len(missing)))
    return cache
