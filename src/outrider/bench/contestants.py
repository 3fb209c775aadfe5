"""What runs in a benchmark: drafters of one loaded target, and other engines as peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from outrider.engine.result import Result
from outrider.errors import OptionError
from outrider.registry import PEERS
from outrider.sampling.params import SamplingParams

if TYPE_CHECKING:
    from outrider.llm import LLM

BASELINE = "none"


class Contestant(Protocol):
    """Something that answers a prompt and says how long it took."""

    @property
    def name(self) -> str:
        """Its name in the results."""
        ...

    def generate(self, prompt: list[int], params: SamplingParams) -> Result:
        """Return the result for one prompt of token ids."""
        ...


@dataclass(frozen=True, slots=True)
class DrafterContestant:
    """The target with one drafter."""

    name: str
    llm: LLM

    def generate(self, prompt: list[int], params: SamplingParams) -> Result:
        """Return the result for one prompt of token ids."""
        result = self.llm.generate(prompt, params)
        assert isinstance(result, Result)
        return result


def contestants(
    model: str,
    llm: LLM,
    drafters: Sequence[str],
    peers: Sequence[str],
    params: SamplingParams,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Contestant]:
    """Return plain decoding first, then each drafter and each peer once.

    `options`: of drafters, by the drafter's name without what stands after the colon.
    `model` is the name that `llm` was loaded by; peers load it again. A peer may say which weights it is to
    use, after a colon. UnknownNameError for one that is not known, OptionError where it cannot run these
    parameters.
    """
    check_peers(peers, params)
    names = list(dict.fromkeys([BASELINE, *drafters]))
    runners: list[Contestant] = []
    for name in names:
        own = (options or {}).get(name.partition(":")[0])
        runners.append(DrafterContestant(name, llm.using(drafter=name, drafter_options=own)))
    for peer in peers:
        name, colon, weights = peer.partition(":")
        runners.append(PEERS.load(name).build(model, llm.model, weights if colon else None))
    return runners


def check_peers(peers: Sequence[str], params: SamplingParams) -> None:
    """Check names and parameters before anything is loaded; errors as in `contestants`."""
    for peer in peers:
        PEERS[peer.partition(":")[0]]
        if not params.greedy:
            raise OptionError(f"--peer {peer} runs at --temperature 0 only: its random draws are its own")
