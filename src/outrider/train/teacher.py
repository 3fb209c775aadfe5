"""What a target says and feels about whole texts: its laws, cut to the likely tokens, and its features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, cast

import torch

from outrider.cache.base import Cache
from outrider.errors import CapabilityError, NumericsError
from outrider.models.base import Batch, LoadedModel, PassOutput
from outrider.models.config import DecoderConfig
from outrider.train.readings import Laws, Reading, Readings
from outrider.train.store import Example

PASS_ROWS = 256
"""Rows of one pass: their logits over the whole vocabulary are held at once."""


class Readable(Protocol):
    """A target that can show what its residual stream holds, as the lean decoders do."""

    config: DecoderConfig
    device: torch.device

    def new_cache(self) -> Cache:
        """Return an empty cache."""
        ...

    def run(self, batch: Batch, caches: Sequence[Cache], *, captured: Sequence[int] = ()) -> PassOutput:
        """Run one pass and keep the states after the `captured` layers."""
        ...


class Teacher:
    """Reads texts with a target; those that `kept` has no room for are read anew every time.

    `top`: K of the laws. `captured`: layers whose outputs are the features. A text's reading is the same
    whether it was kept or not. CapabilityError for a target that does not run on the lean decoder.
    """

    def __init__(
        self,
        model: LoadedModel,
        *,
        top: int,
        captured: Sequence[int] = (),
        kept: Readings | None = None,
    ) -> None:
        if not hasattr(model.target, "run"):
            raise CapabilityError(
                f"{model.name} runs through transformers; what is trained here needs a target of the lean "
                "decoder, which runs llama, mistral, qwen2 and qwen3"
            )
        self.target = cast(Readable, model.target)
        self.top = min(top, model.target.vocab_size)
        self.captured = tuple(captured)
        self.kept = kept

    def read(self, text: Example) -> Reading:
        """Return the reading of a text; its rows hold the laws of the token after each."""
        kept = None if self.kept is None else self.kept.get(text)
        if kept is not None:
            return kept
        with torch.autocast(self.target.device.type, enabled=False):  # whatever the learner runs in
            reading = self._read(text)
        if self.kept is not None:
            self.kept.put(text, reading)
        return reading

    def read_ahead(self, texts: Iterable[Example]) -> Iterator[None]:
        """Read texts one by one, as far as they can be kept."""
        for text in texts:
            if self.kept is None:
                return
            if text not in self.kept:
                self.read(text)
                if text not in self.kept:
                    return
            yield

    def _read(self, text: Example) -> Reading:
        cache, count = self.target.new_cache(), len(text.tokens)
        ids = torch.zeros(count, self.top, dtype=torch.int32)
        probs = torch.zeros(count, self.top)
        features = []
        before = {row - 1 for start, end in text.spans for row in range(start, end)}
        for start in range(0, count, PASS_ROWS):
            piece = text.tokens[start : start + PASS_ROWS]
            rows = range(len(piece))
            wanted = [row for row in rows if start + row in before]
            batch = Batch(
                tokens=piece,
                positions=tuple(start + row for row in rows),
                sequences=(0,) * len(piece),
                parents=tuple(row - 1 for row in rows),
                wanted=tuple(wanted),
            )
            output = self.target.run(batch, [cache], captured=self.captured)
            cache.keep(rows)
            if not bool(output.logits.isfinite().any(dim=-1).all()) or bool(output.logits.isnan().any()):
                raise NumericsError("the target gave logits that are not numbers; nothing can be learned")
            top = output.logits.softmax(dim=-1).topk(self.top, dim=-1)
            places = torch.tensor(wanted, dtype=torch.int64) + start
            ids[places], probs[places] = top.indices.to("cpu", torch.int32), top.values.float().cpu()
            features.append(output.hidden.to("cpu", torch.float16))
        return Reading(Laws(ids, probs), torch.cat(features, dim=1))
