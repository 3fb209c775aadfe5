"""The target writes training texts: many at once, into a store, in an order that a kill does not change.

Drafts are best trained on what their target says itself (Zhou et al. 2024, "DistillSpec", arXiv 2310.08461,
section 4.2), so answers are always the target's own.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.engine.scheduler import Limits
from outrider.errors import LoadError, OptionError, VocabularyError
from outrider.llm import LLM
from outrider.models.base import LoadedModel
from outrider.train.candidate import Candidate, Writing, describe
from outrider.train.prompts import Conversation, PromptFile, messages, opening
from outrider.train.store import Example, Store, is_store

FLUSH_SECONDS = 5.0
"""At most so much writing is lost where the power goes."""
AHEAD = 4
"""Candidates on their way, as a multiple of the requests in a pass; done ones wait for those before them."""


@dataclass(frozen=True, slots=True)
class Written:
    """How far the writing is."""

    examples: int
    wanted: int
    tokens: int
    """Written by the target in this run."""
    seconds: float
    """Of this run."""
    begun_with: int
    """Texts that were there before."""


def write_data(
    llm: LLM,
    directory: Path,
    writing: Writing,
    *,
    prompts: PromptFile | None = None,
    count: int | None = None,
    running: int = 16,
    report: Callable[[Written], None] = lambda _: None,
) -> Store:
    """Write texts into a store until it holds `count`, or every prompt was answered; return it, closed.

    Without `prompts` the target writes its own, and `count` must be given. A store that is there is
    continued; its texts are then the same as if it had never stopped. OptionError where others began it.
    """
    if prompts is None and count is None:
        raise OptionError("without prompts the target writes its own; say how many (count)")
    if prompts is None:
        opening(llm.model.tokenizer)  # refuses models that cannot
    about = _about(llm.model, writing, prompts)
    store = _continued(directory, about) if is_store(directory) else Store.create(directory, about)
    try:
        _Writer(llm, store, writing, prompts, count, running, report).run()
    finally:
        store.close()
    return store


def open_data(directory: Path, model: LoadedModel) -> list[Example]:
    """Return the texts of a store; VocabularyError where they are not in this model's tokens.

    LoadError where there are none.
    """
    store = Store(directory)
    if store.header["target"]["tokens"] != _tokens(model):
        raise VocabularyError(
            f"the texts in {str(directory)!r} were written by {store.header['target']['name']}, whose tokens "
            f"are not those of {model.name}; make data with this target"
        )
    if not store.examples:
        raise LoadError(f"{str(directory)!r} holds no texts yet; run outrider train data first")
    return store.examples


class _Writer:
    def __init__(
        self,
        llm: LLM,
        store: Store,
        writing: Writing,
        prompts: PromptFile | None,
        count: int | None,
        running: int,
        report: Callable[[Written], None],
    ) -> None:
        self._model, self._store, self._writing = llm.model, store, writing
        self._prompts, self._report = prompts, report
        self._most = None if prompts is None else len(prompts.conversations)
        self._kept = self._begun_with = len(store.examples)
        self._wanted = self._most if count is None else count
        self._engine = llm.engine(Limits(running=running, waiting=10**9))
        self._window = AHEAD * running
        self._on_way: dict[int, Candidate] = {}
        self._tokens, self._begun, self._flushed = 0, time.monotonic(), time.monotonic()
        self._gate = len(store)
        self._seen = self._earlier()

    def run(self) -> None:
        """Start candidates, run passes, keep what is done in order."""
        begin = len(self._store)
        while self._kept < (self._wanted or 0):
            while len(self._on_way) < self._window and self._may_start(begin):
                self._start(begin)
                begin += 1
            if not self._on_way:
                break
            self._engine.step()
            for candidate in self._on_way.values():
                if candidate.request is not None and candidate.request.result is not None:
                    self._tokens += candidate.request.result.completion_tokens
                    candidate.take(self._engine)
            self._open_gate()
            self._keep()
            self._report(self._written())

    def _may_start(self, number: int) -> bool:
        assert self._wanted is not None
        if self._most is not None and number >= self._most:
            return False
        return self._kept + len(self._on_way) < self._wanted

    def _start(self, number: int) -> None:
        given = self._prompts.conversations[number] if self._prompts is not None else None
        candidate = Candidate(number, self._model, self._writing, given)
        self._on_way[number] = candidate
        if given is None:
            candidate.open(self._engine)
        else:
            self._open_gate()

    def _open_gate(self) -> None:
        """Let prompts through in order, each once: which of two alike is kept must not depend on time."""
        while (candidate := self._on_way.get(self._gate)) is not None and candidate.opened:
            self._gate += 1
            if candidate.done:
                continue
            assert candidate.conversation is not None
            key = self._key(candidate.conversation)
            if key in self._seen:
                candidate.done = True
            else:
                self._seen.add(key)
                candidate.ask(self._engine)

    def _keep(self) -> None:
        assert self._wanted is not None
        while self._kept < self._wanted:
            candidate = self._on_way.get(len(self._store))
            if candidate is None or not candidate.done:
                break
            del self._on_way[candidate.number]
            self._store.append(candidate.example)
            self._kept += candidate.example is not None
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self._store.flush()
            self._flushed = time.monotonic()

    def _key(self, conversation: Conversation) -> Hashable:
        """Return what tells a prompt from others; of one that the target wrote, its tokens."""
        if self._prompts is not None:
            return conversation.key
        return tuple(self._model.tokenizer.chat(messages(conversation, [])))

    def _earlier(self) -> set[Hashable]:
        """Return the keys of the prompts that the store's records were made of."""
        if self._prompts is not None:
            return {self._key(one) for one in self._prompts.conversations[: self._gate]}
        return {record.tokens[: record.spans[0][0]] for record in self._store.examples}

    def _written(self) -> Written:
        assert self._wanted is not None
        return Written(
            self._kept, self._wanted, self._tokens, time.monotonic() - self._begun, self._begun_with
        )


def _about(model: LoadedModel, writing: Writing, prompts: PromptFile | None) -> dict[str, Any]:
    target = {
        "name": model.name,
        "source": model.details.get("source"),
        "weights": model.details.get("weights"),
        "tokens": _tokens(model),
    }
    return {
        "target": target,
        "writing": describe(writing),
        "prompts": None if prompts is None else prompts.digest,
    }


def _tokens(model: LoadedModel) -> str:
    """Return what tells a vocabulary from others."""
    listed = sorted(model.tokenizer.vocabulary().items(), key=lambda entry: (entry[1], entry[0]))
    return hashlib.sha256(repr((model.target.vocab_size, listed)).encode()).hexdigest()


def _continued(directory: Path, about: dict[str, Any]) -> Store:
    """Open a store to go on with; OptionError where others began it."""
    store = Store(directory, writable=True)
    for part, now in about.items():
        then = store.header.get(part)
        if then != now:
            what = part
            if isinstance(now, dict) and isinstance(then, dict):
                what = ", ".join(f"{key} was {then.get(key)!r}" for key in now if then.get(key) != now[key])
            raise OptionError(
                f"{str(directory)!r} was begun with another {part} ({what}); give the same again, or name a "
                "new directory"
            )
    return store
