"""Notes how likely the tokens of one sequence were, where its options ask for it."""

from __future__ import annotations

from collections.abc import Iterable

from jaxtyping import Float
from torch import Tensor

from outrider.sampling.law import LogitLaws
from outrider.sampling.logprobs import TokenLogprobs, of_logits
from outrider.sampling.params import SamplingParams
from outrider.sampling.threads import one_thread


class Record:
    """The logprobs of one sequence's tokens; each list follows the tokens it stands for, one entry a token.

    Nothing is worked out that was not asked for; `record_of` returns None where nothing was.
    """

    def __init__(self, params: SamplingParams) -> None:
        self._params = params
        self.emitted: list[TokenLogprobs] = []
        """Of the output, where `logprobs` was given."""
        self.drawn: list[float] = []
        """Logprobs under the law each token was drawn from, where `best_of` has to choose."""
        self.prompt: list[TokenLogprobs | None] = [None]
        """Of the prompt's tokens that were read so far, where `prompt_logprobs` was given; the first token
        has no law before it."""

    @one_thread()
    def note(self, laws: LogitLaws, tokens: Iterable[tuple[int, int]]) -> None:
        """Note emitted tokens, each with the row of `laws` that it came from."""
        count, processed = self._params.logprobs, self._params.logprobs_of == "processed"
        for row, token in tokens:
            if count is not None:
                self.emitted.append(laws.logprobs(row, token, count, processed=processed))
            if self._params.ranks:
                self.drawn.append(laws.logprobs(row, token, 0, processed=True).logprob)

    @one_thread()
    def note_prompt(self, logits: Float[Tensor, "M V"], tokens: Iterable[int]) -> None:
        """Note the next tokens of the prompt, each with the model's logits before it."""
        for row, token in zip(logits, tokens, strict=True):
            self.prompt.append(of_logits(row, token, self._params.prompt_logprobs or 0))


def record_of(params: SamplingParams) -> Record | None:
    """Return the record of a new sequence, None where no option asks for one."""
    wanted = params.logprobs is not None or params.prompt_logprobs is not None or params.ranks
    return Record(params) if wanted else None
