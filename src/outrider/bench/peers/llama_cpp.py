"""llama.cpp, greedy, on the model's own GGUF file or on one it has converted that file to."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from gguf.constants import LlamaFileType

from outrider.bench.peers.base import TokenClock, end_tokens, most_tokens, peer_result
from outrider.bench.peers.llama_session import LlamaSession, convert, library
from outrider.engine.result import Result
from outrider.errors import CapabilityError, UnknownNameError
from outrider.models.base import LoadedModel, Tokenizer
from outrider.models.locate import locate
from outrider.sampling.params import SamplingParams

FILE_TYPES = {
    "f32": LlamaFileType.ALL_F32,
    **{
        name: LlamaFileType[f"MOSTLY_{name.upper()}"]
        for name in ("f16", "bf16", "q8_0", "q6_k", "q5_k_m", "q5_1", "q5_0", "q4_k_m", "q4_1", "q4_0")
    },
}
"""What a file can be converted to, by the name that follows `llama.cpp:`."""


class LlamaCppPeer:
    """llama.cpp on the CPU, greedy, with as many threads as torch has."""

    def __init__(self, name: str, session: LlamaSession, tokenizer: Tokenizer, context_limit: int) -> None:
        self.name = name
        self._session, self._tokenizer, self._context_limit = session, tokenizer, context_limit

    @classmethod
    def build(cls, model: str, loaded: LoadedModel, weights: str | None) -> LlamaCppPeer:
        """Load the GGUF file of the model called `model` into llama.cpp, as it is or converted to `weights`.

        LoadError where `cyllama` is not installed or llama.cpp cannot read the file; UnknownNameError for
        other weights; CapabilityError for a model that is no GGUF file or not on the CPU.
        """
        if weights is not None and weights not in FILE_TYPES:
            raise UnknownNameError("weights of --peer llama.cpp", weights, FILE_TYPES)
        library()
        device = getattr(loaded.target, "device", torch.device("cpu"))
        if device.type != "cpu":
            raise CapabilityError(
                f"--peer llama.cpp runs on the CPU and the model on {device}; use --device cpu"
            )
        path = locate(model)
        if path.is_dir():
            raise CapabilityError(f"--peer llama.cpp reads GGUF files; {path.name} is a directory")
        session = open_session(path, weights, threads=torch.get_num_threads())
        name = "llama.cpp" if weights is None else f"llama.cpp:{weights}"
        return cls(name, session, loaded.tokenizer, loaded.target.context_limit)

    def generate(self, prompt: list[int], params: SamplingParams) -> Result:
        """Return the result for one prompt; decode time runs from its first token to its last."""
        count, ends = most_tokens(prompt, params, self._context_limit), end_tokens(self._tokenizer, params)
        self._session.start(len(prompt) + count)
        tokens: list[int] = []
        clock = TokenClock()
        fresh = prompt
        while len(tokens) < count:
            self._session.read(fresh)
            tokens.append(self._session.best())
            clock.tick()
            if tokens[-1] in ends:
                break
            fresh = tokens[-1:]
        return peer_result(self.name, self._tokenizer, prompt, tokens, clock, params)


def open_session(path: Path, weights: str | None, *, threads: int) -> LlamaSession:
    """Open a GGUF file as it is (None) or converted to a name of `FILE_TYPES`, leaving no file behind."""
    if weights is None:
        return LlamaSession(path, threads=threads)
    with TemporaryDirectory(prefix="outrider-") as directory:
        converted = Path(directory) / f"{weights}.gguf"
        convert(path, converted, FILE_TYPES[weights], threads=threads)
        # Where names and files are two things, a mapped file lives on without its name.
        return LlamaSession(converted, threads=threads, mapped=os.name == "posix")
