"""Checks of what is promised, on the model at hand: exact rules, independent rows, the same tokens."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from outrider.bench.suites import OWN
from outrider.cache.base import Cache
from outrider.engine.result import Result
from outrider.models.base import Batch, Target, Tokenizer
from outrider.sampling.params import SamplingParams
from outrider.types import Guarantee

if TYPE_CHECKING:
    from outrider.llm import LLM

CHAIN = (-1, 0, 1, 2, 3, 4, 5)
TREE = (-1, 0, 0, 0, 1, 1, 2, 4, 4, 6, 9)
PROMPT_IDS = ("edit-2", "code-1", "qa-1", "rag-1")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `detail` says what was compared, or what went wrong and where."""

    name: str
    passed: bool
    detail: str


def rule_checks(rules: Sequence[str], *, cases: int, seed: int) -> Iterator[Check]:
    """Prove rules by exact enumeration on rational arithmetic over small laws."""
    from outrider.loop.accept.proof import prove
    from outrider.registry import RULES

    for name in rules:
        for check, passed, detail in prove(RULES.load(name)(), cases=cases, seed=seed):
            yield Check(f"rule {name}: {check}", passed, detail)


def row_checks(target: Target, *, seed: int = 0) -> Iterator[Check]:
    """Compare the logits of positions computed alone with those computed beside others, bit for bit.

    Alone means: the whole text one row a pass. Beside others: the context in one pass, then a chain, a tree
    (where the target can branch), and two sequences in one pass.
    """
    draw = random.Random(seed)
    room = target.context_limit - len(TREE)
    texts = [[draw.randrange(target.vocab_size) for _ in range(min(n, room))] for n in (37, 11)]
    guesses = [[draw.randrange(target.vocab_size) for _ in TREE] for _ in texts]

    def beside(shapes: Sequence[Sequence[int]]) -> Tensor:
        caches = [_filled(target, text) for text in texts[: len(shapes)]]
        return target.forward(_batch(shapes, guesses, caches), caches)

    def alone(shapes: Sequence[Sequence[int]]) -> Tensor:
        return torch.cat(
            [
                _one_by_one(target, [*text, *path])
                for text, tokens, shape in zip(texts, guesses, shapes, strict=False)
                for path in _paths(tokens, shape)
            ]
        )

    layouts: dict[str, list[tuple[int, ...]]] = {"in a chain": [CHAIN], "in a batch": [CHAIN[:4], CHAIN[:1]]}
    if target.can_branch:
        layouts |= {"in a tree": [TREE], "in a batch of trees": [TREE, TREE[:6]]}
    for place, shapes in layouts.items():
        yield _same(f"rows {place}", beside(shapes), alone(shapes))
    if not target.can_branch:
        yield Check("rows in a tree", True, "not looked at: this target runs chains only")


def _same(name: str, found: Tensor, expected: Tensor) -> Check:
    differing = int((found != expected).any(dim=-1).sum())
    if not differing:
        return Check(name, True, f"{len(found)} rows equal to the same rows alone, bit for bit")
    gap = float((found - expected).abs().max())
    scale = float(expected.abs().max())
    detail = f"{differing} of {len(found)} rows differ from the same rows alone, by up to {gap:.2e}"
    return Check(name, False, f"{detail} (logits up to {scale:.1f})")


def _filled(target: Target, text: Sequence[int]) -> Cache:
    cache = target.new_cache()
    rows = range(len(text))
    parents = tuple(row - 1 for row in rows)
    target.forward(Batch(tuple(text), tuple(rows), (0,) * len(text), parents, (len(text) - 1,)), [cache])
    cache.keep(rows)
    return cache


def _one_by_one(target: Target, text: Sequence[int]) -> Tensor:
    """Return the logits [1, V] after a text that was run one row a pass."""
    cache = target.new_cache()
    logits = torch.empty(0)
    for position, token in enumerate(text):
        logits = target.forward(Batch((token,), (position,), (0,), (-1,), (0,)), [cache])
        cache.keep((0,))
    return logits


def _batch(
    shapes: Sequence[Sequence[int]], guesses: Sequence[Sequence[int]], caches: Sequence[Cache]
) -> Batch:
    """Pack a tree for each sequence: `shapes` are parents, `guesses` the tokens to fill them with."""
    tokens: list[int] = []
    positions: list[int] = []
    sequences: list[int] = []
    parents: list[int] = []
    for index, (shape, guessed, cache) in enumerate(zip(shapes, guesses, caches, strict=False)):
        start = len(tokens)
        for row, parent in enumerate(shape):
            tokens.append(guessed[row])
            sequences.append(index)
            parents.append(parent if parent < 0 else start + parent)
            positions.append(cache.length if parent < 0 else positions[start + parent] + 1)
    return Batch(tuple(tokens), tuple(positions), tuple(sequences), tuple(parents), tuple(range(len(tokens))))


def _paths(tokens: Sequence[int], shape: Sequence[int]) -> Iterator[list[int]]:
    """Yield for each row the tokens from the root down to it."""
    paths: list[list[int]] = []
    for row, parent in enumerate(shape):
        paths.append([*(paths[parent] if parent >= 0 else []), tokens[row]])
    yield from paths


def identity_checks(llm: LLM, *, max_tokens: int = 64, temperature: float = 0.8) -> Iterator[Check]:
    """Compare a drafter's tokens with plain decoding's, greedy and seeded, on prompts of the own suite."""
    plain = llm.using(drafter="none")
    chat = llm.model.tokenizer.has_chat_template
    prompts = {prompt.id: prompt.turns[0] for prompt in OWN.read().prompts if prompt.id in PROMPT_IDS}
    greedy = SamplingParams(max_tokens=max_tokens, seed=7)
    settings = {"greedy": greedy}
    if llm.rule_name != "greedy":
        settings[f"seeded, temperature {temperature}"] = replace(greedy, temperature=temperature)
    for words, params in settings.items():
        name = f"same tokens, {words}"
        differences = []
        total = 0
        for key, text in prompts.items():
            expected, found = (one.generate(text, params, chat=chat) for one in (plain, llm))
            if params.temperature and found.speculation.guarantee is not Guarantee.SAME_TOKENS:
                break
            total += expected.completion_tokens
            difference = first_difference(expected, found, llm.model.tokenizer)
            differences += [f"prompt {key}, {difference}"] if difference else []
        else:
            detail = differences[0] if differences else f"{total} tokens of {len(prompts)} prompts equal"
            yield Check(name, not differences, detail)
            continue
        yield Check(name, True, f"not looked at: rule {llm.rule_name} promises the law, not the tokens")


def first_difference(expected: Result, found: Result, tokenizer: Tokenizer) -> str | None:
    """Say where two results part, or None where they don't."""
    pairs = zip(expected.token_ids, found.token_ids, strict=False)
    for index, (plain, drafted) in enumerate(pairs):
        if plain != drafted:
            texts = [repr(tokenizer.decode([token], skip_special=False)) for token in (plain, drafted)]
            return f"token {index}: plain {plain} {texts[0]}, with drafts {drafted} {texts[1]}"
    if expected.completion_tokens != found.completion_tokens:
        return f"plain ended after {expected.completion_tokens} tokens, with drafts {found.completion_tokens}"
    return None
