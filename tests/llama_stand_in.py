"""A stand-in for llama.cpp's bindings, which are no dependency, on a tiny decoder of this package."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from outrider.models.base import Batch
from tiny import tiny_config, tiny_decoder

DECODER = tiny_decoder(tiny_config(context_limit=40))
REFUSED = 15
"""The file type that it does not write."""


class StandIn(ModuleType):
    """The part of `cyllama.llama.llama_cpp` that is used.

    It is as strict as llama.cpp: positions go on where the cache ends, and only rows with logits are sampled.
    """

    def __init__(self) -> None:
        super().__init__("cyllama.llama.llama_cpp")
        self.contexts: list[Any] = []
        self.opened: list[tuple[str, bool]] = []
        self.converted: list[tuple[str, str, int]] = []
        self.LlamaModelParams = self.LlamaModelQuantizeParams = SimpleNamespace
        self.LlamaContextParams = self.LlamaSamplerChainParams = SimpleNamespace
        self.LlamaBatch, self.LlamaSampler = StandInBatch, StandInSampler

    def disable_logging(self) -> None: ...

    def LlamaModel(self, path: str, params: Any, verbose: bool) -> object:  # noqa: N802
        if not Path(path).read_bytes().startswith(b"GGUF"):
            raise ValueError("does not look like a valid GGUF model file")
        self.opened.append((path, params.use_mmap))
        return object()

    def LlamaContext(self, model: object, params: Any, verbose: bool) -> StandInContext:  # noqa: N802
        self.contexts.append(StandInContext(params))
        return self.contexts[-1]

    def model_quantize(self, source: str, target: str, params: Any) -> None:
        assert params.allow_requantize
        if params.ftype == REFUSED:
            raise RuntimeError("llama_model_quantize failed with code 1")
        self.converted.append((source, target, params.ftype))
        Path(target).write_bytes(Path(source).read_bytes())


class StandInBatch:
    def __init__(self, n_tokens: int, embd: int, n_seq_max: int) -> None:
        self.capacity, self.rows = n_tokens, list[tuple[int, int, bool]]()

    def clear(self) -> None:
        self.rows = []

    def add(self, token: int, position: int, sequences: list[int], logits: bool) -> None:
        assert sequences == [0]
        assert len(self.rows) < self.capacity
        self.rows.append((token, position, logits))


class StandInContext:
    def __init__(self, params: Any) -> None:
        self.params, self.n_ctx = params, params.n_ctx
        self.closed, self.batches = False, list[int]()
        self.kv_cache_clear()

    def kv_cache_clear(self) -> None:
        assert not self.closed
        self.cache, self.logits = DECODER.new_cache(), None

    def decode(self, batch: StandInBatch) -> None:
        tokens, positions, wanted = zip(*batch.rows, strict=True)
        n, start = len(tokens), self.cache.length
        assert positions == tuple(range(start, start + n))
        assert start + n <= self.n_ctx
        rows = Batch(tokens, positions, (0,) * n, tuple(range(-1, n - 1)), (n - 1,))
        logits = DECODER.forward(rows, [self.cache])
        self.logits = logits[0] if wanted[-1] else None
        self.cache.keep(range(n))
        self.batches.append(n)

    def synchronize(self) -> None: ...

    def memory_seq_rm(self, sequence: int, first: int, last: int) -> bool:
        assert (sequence, last) == (0, -1)
        self.cache.truncate(first)
        return True

    def close(self) -> None:
        self.closed = True


class StandInSampler:
    def __init__(self, params: Any) -> None:
        self.greedy = False

    def add_greedy(self) -> None:
        self.greedy = True

    def sample(self, context: StandInContext, row: int) -> int:
        assert self.greedy
        assert row == -1
        assert context.logits is not None
        return int(context.logits.argmax())
