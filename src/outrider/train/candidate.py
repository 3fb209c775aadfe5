"""One prompt on its way to a training text: written where need be, checked, answered turn by turn."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from outrider.engine.engine import Engine
from outrider.engine.request import Request
from outrider.engine.result import Result
from outrider.errors import TrainingError
from outrider.models.base import LoadedModel
from outrider.sampling.params import SamplingParams
from outrider.train.prompts import Conversation, messages, opening
from outrider.train.store import Example


@dataclass(frozen=True, slots=True)
class Writing:
    """How texts are written; lengths in tokens."""

    temperatures: tuple[float, ...] = (0.0, 0.7, 1.0)
    """Of the answers: candidate i takes the i-th, over and over."""
    prompt_temperature: float = 1.0
    """At which the target writes prompts of its own."""
    max_tokens: int = 256
    """Most tokens of one answer."""
    max_prompt: int = 512
    """A longer prompt, with the turns before it, is passed over; one that the target writes is shorter."""
    own_prompt: int = 128
    """Most tokens of a prompt that the target writes; one that does not end by then is passed over."""
    seed: int = 0


@dataclass(slots=True)
class Candidate:
    """The prompt of one record, from its number alone: the same number gives the same text.

    `conversation` is None while the target has yet to write it. `example` stands once it is `done`, None
    where the candidate was passed over.
    """

    number: int
    model: LoadedModel
    writing: Writing
    conversation: Conversation | None
    request: Request | None = None
    example: Example | None = None
    done: bool = False
    answers: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)

    @property
    def opened(self) -> bool:
        """Its prompt is known, or it is done with."""
        return self.conversation is not None or self.done

    def open(self, engine: Engine) -> None:
        """Have the target write the prompt; what a base model writes is the text itself."""
        chat = self.model.tokenizer.has_chat_template
        most = self.writing.own_prompt if chat else self.writing.max_tokens
        heat = self.writing.prompt_temperature if chat else self._temperature
        self._ask(engine, opening(self.model.tokenizer), heat, most)

    def ask(self, engine: Engine) -> None:
        """Ask for the answer of the next turn; a prompt that does not fit ends the candidate."""
        assert self.conversation is not None
        tokenizer = self.model.tokenizer
        if tokenizer.has_chat_template:
            prompt = tokenizer.chat(messages(self.conversation, self.answers))
        else:
            prompt = tokenizer.encode(self.conversation.turns[0])
        room = self.model.target.context_limit - 1
        if not prompt or len(prompt) > min(room, self.writing.max_prompt):
            self.done = True  # what was answered before stands
            return
        self._ask(engine, prompt, self._temperature, self.writing.max_tokens)

    def take(self, engine: Engine) -> None:
        """Take what the request gave, once it has ended, and go on to what comes next."""
        assert self.request is not None
        request, self.request = self.request, None
        assert request.result is not None
        if request.error is not None:
            raise TrainingError(f"the target could not answer prompt {self.number}: {request.error}")
        prompt = request.sequence.tokens[: request.result.prompt_tokens]
        if self.conversation is None and self.model.tokenizer.has_chat_template:
            self._take_prompt(request.result)
            return
        self._take_answer(prompt, request.result)
        more = self.conversation is not None and len(self.answers) < len(self.conversation.turns)
        if more and self.model.tokenizer.has_chat_template and not self.done:
            self.ask(engine)
        else:
            self.done = True

    def _take_prompt(self, result: Result) -> None:
        text = result.text.strip()
        if text and result.finish_reason == "stop":
            self.conversation = Conversation((text,))
        else:
            self.done = True

    def _take_answer(self, prompt: list[int], result: Result) -> None:
        tokens = (*prompt, *result.token_ids)
        before = self.example.tokens if self.example is not None else ()
        if tokens[: len(before)] != before:
            self.spans = []  # the template writes earlier turns otherwise than they were answered
        self.answers.append(result.text)
        if result.token_ids:
            self.spans.append((len(prompt), len(tokens)))
            self.example = Example(tokens, tuple(self.spans))

    @property
    def _temperature(self) -> float:
        return self.writing.temperatures[self.number % len(self.writing.temperatures)]

    def _ask(self, engine: Engine, prompt: list[int], temperature: float, most: int) -> None:
        part = f"{self.writing.seed} {self.number} {self.opened} {len(self.answers)}"
        params = SamplingParams(temperature=temperature, max_tokens=most, seed=seed_of(part))
        self.request = engine.submit(prompt, params)


def seed_of(words: str) -> int:
    """Return a seed, 63 bits, that is another for other words."""
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "big") >> 1


def describe(writing: Writing) -> dict[str, Any]:
    """Return what decides the texts, as it is kept beside them."""
    return {
        "temperatures": list(writing.temperatures),
        "prompt_temperature": writing.prompt_temperature,
        "max_tokens": writing.max_tokens,
        "max_prompt": writing.max_prompt,
        "own_prompt": writing.own_prompt,
        "seed": writing.seed,
    }
