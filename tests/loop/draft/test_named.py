"""Laws over a part of the vocabulary are those of the whole one, where other tokens have no chance."""

from __future__ import annotations

import pytest
import torch

from outrider.heads.vocab import expand
from outrider.loop.draft.named import NamedLaws
from outrider.sampling.law import LogitLaws
from outrider.sampling.params import SamplingParams

VOCABULARY = 40
NAMES = torch.tensor([3, 4, 9, 17, 18, 30, 39])


@pytest.mark.parametrize(
    "options", [{"temperature": 0.0}, {"temperature": 0.7}, {"temperature": 1.3, "top_k": 3, "top_p": 0.9}]
)
def test_they_are_the_laws_of_logits_that_were_put_in_their_places(options: dict[str, float]) -> None:
    params = SamplingParams(**options)  # type: ignore[arg-type]
    logits = torch.randn(5, len(NAMES), generator=torch.Generator().manual_seed(2))
    logits[0, 2] = logits[0, 5] = 4.0  # equally likely
    laws = NamedLaws(LogitLaws(logits, params), NAMES, VOCABULARY)
    whole = LogitLaws(expand(logits, NAMES, VOCABULARY), params)
    for row in range(len(logits)):
        assert torch.allclose(laws[row], whole[row], rtol=1e-6)
        assert laws.confidence(row) == pytest.approx(whole.confidence(row))
        found, expected = laws.best(row, 4), whole.best(row, 4)
        assert [token for token, _ in found] == [token for token, _ in expected]
        assert [p for _, p in found] == pytest.approx([p for _, p in expected])
