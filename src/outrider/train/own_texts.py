"""Texts that a student writes while it learns, for the target to judge (on-policy distillation)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from outrider.engine.engine import Engine
from outrider.engine.scheduler import Limits
from outrider.loop.draft.none import NoDrafter
from outrider.models.base import LoadedModel
from outrider.models.passes import Choice, build_decoder
from outrider.models.source import StateDictSource
from outrider.sampling.params import SamplingParams
from outrider.train.candidate import seed_of
from outrider.train.store import Example
from outrider.train.student import Student


@dataclass(slots=True)
class OwnTexts:
    """Takes a share of each batch's place with answers of the student to the same prompts.

    Every `every` steps the student answers `count` prompts of `texts` anew, at temperature 1, with at most
    as many tokens as the target's last answer has. Which ones, and what it says, follows from the seed, the
    step and the student's weights.
    """

    model: LoadedModel
    """The target: its tokenizer is the student's."""
    texts: Sequence[Example]
    share: float
    """Of the texts of a batch, from 0 to 1."""
    count: int = 64
    every: int = 50
    seed: int = 0
    _written: list[Example] = field(default_factory=list)

    def begin_step(self, step: int, student: Student) -> None:
        """Have the student write where that is due; a run that goes on within the time has its texts."""
        if step % self.every == 0 or not self._written:
            self._written = self._write(step, student)

    def mixed(self, batch: Sequence[Example], step: int) -> list[Example]:
        """Return the batch with a share of it exchanged for the student's own texts."""
        if not self._written:
            return list(batch)
        dice = torch.Generator().manual_seed(seed_of(f"{self.seed} {step} mixed"))
        own = (torch.rand(len(batch), generator=dice) < self.share).tolist()
        places = torch.randint(len(self._written), (len(batch),), generator=dice).tolist()
        return [
            self._written[place] if its_own else text
            for text, its_own, place in zip(batch, own, places, strict=True)
        ]

    def state(self) -> dict[str, Any]:
        """Return the texts as plain lists."""
        return {"own": [(list(text.tokens), [list(span) for span in text.spans]) for text in self._written]}

    def take_state(self, state: dict[str, Any]) -> None:
        """Go on with such texts."""
        self._written = [
            Example(tuple(tokens), tuple((start, end) for start, end in spans))
            for tokens, spans in state["own"]
        ]

    def _write(self, step: int, student: Student) -> list[Example]:
        choice = Choice("auto", student.device, "auto")
        decoder, _ = build_decoder(student.config, StateDictSource(student.tensors()), choice)
        model = LoadedModel("student", decoder, self.model.tokenizer)
        engine = Engine(model, NoDrafter(), drafter_name="none", limits=Limits(waiting=10**9))
        dice = torch.Generator().manual_seed(seed_of(f"{self.seed} {step} own texts"))
        chosen = torch.randperm(len(self.texts), generator=dice)[: self.count].tolist()
        requests = []
        for number in chosen:
            start, end = self.texts[number].spans[-1]
            if start == 0:
                continue  # nothing stands before it
            params = SamplingParams(
                temperature=1.0, max_tokens=end - start, seed=seed_of(f"{self.seed} {step} {number} own")
            )
            requests.append(engine.submit(self.texts[number].tokens[:start], params))
        while engine.busy:
            engine.step()
        found = []
        for request in requests:
            tokens, begin = tuple(request.sequence.tokens), request.sequence.prompt_length
            if request.error is None and len(tokens) >= begin + 2:
                found.append(Example(tokens, ((begin, len(tokens)),)))
        return found
