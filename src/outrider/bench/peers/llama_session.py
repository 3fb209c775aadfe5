"""llama.cpp, through the bindings of `cyllama`: a file's model, and one sequence of tokens on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outrider.errors import LoadError

PIECE = 512
"""Most tokens of one pass: llama.cpp's own default size of a physical batch."""
ROOM = 2048
"""Least room of a context, so that it need not be built anew for every longer prompt."""


def library() -> Any:
    """Return the module that binds llama.cpp, silenced; LoadError where it is not installed."""
    try:
        from cyllama.llama import llama_cpp
    except ImportError as error:
        raise LoadError("--peer llama.cpp needs llama.cpp's bindings: pip install cyllama") from error
    llama_cpp.disable_logging()
    return llama_cpp


def convert(source: Path, target: Path, file_type: int, *, threads: int) -> None:
    """Write a GGUF file again with llama.cpp's own mix for a file type (gguf's `LlamaFileType`).

    Tensors that are quantised already are dequantised first, so a type with more bits keeps the source's
    values and loses only its own rounding. LoadError where llama.cpp does not write this type.
    """
    llama = library()
    how = llama.LlamaModelQuantizeParams()
    how.ftype, how.nthread, how.allow_requantize = int(file_type), threads, True
    try:
        llama.model_quantize(str(source), str(target), how)
    except (RuntimeError, ValueError) as error:
        raise LoadError(f"llama.cpp cannot write {source.name} as {target.stem}: {error}") from error


class LlamaSession:
    """One sequence on a model in llama.cpp, on the CPU, with llama.cpp's own defaults.

    `threads` are used both for passes over one token and over many. `mapped` False reads the weights into
    memory, so that the file may go away. LoadError where llama.cpp cannot load the file.
    """

    def __init__(self, file: Path, *, threads: int, mapped: bool = True) -> None:
        self._llama, self._threads = library(), threads
        options = self._llama.LlamaModelParams()
        options.n_gpu_layers, options.use_mmap = 0, mapped
        try:
            self._model = self._llama.LlamaModel(str(file), options, verbose=False)
        except (OSError, RuntimeError, ValueError) as error:
            raise LoadError(f"llama.cpp cannot load {file.name}: {error}") from error
        self._greedy = self._llama.LlamaSampler(self._llama.LlamaSamplerChainParams())
        self._greedy.add_greedy()
        self._batch = self._llama.LlamaBatch(n_tokens=PIECE, embd=0, n_seq_max=1)
        self._context: Any = None
        self.length = 0

    def start(self, room: int) -> None:
        """Begin an empty sequence that may grow to `room` tokens."""
        if self._context is None or self._context.n_ctx < room:
            if self._context is not None:
                self._context.close()
            options = self._llama.LlamaContextParams()
            options.n_ctx = max(room, ROOM)
            options.n_threads = options.n_threads_batch = self._threads
            self._context = self._llama.LlamaContext(self._model, options, verbose=False)
        self._context.kv_cache_clear()
        self.length = 0

    def read(self, tokens: Sequence[int], *, all_logits: bool = False) -> None:
        """Run tokens through the model, and wait for it; logits come for the last one or for all."""
        for begin in range(0, len(tokens), PIECE):
            piece = tokens[begin : begin + PIECE]
            self._batch.clear()
            for index, token in enumerate(piece, begin + 1):
                self._batch.add(token, self.length, [0], all_logits or index == len(tokens))
                self.length += 1
            self._context.decode(self._batch)
        self._context.synchronize()

    def best(self) -> int:
        """Return the most likely token after the last one read."""
        return int(self._greedy.sample(self._context, -1))

    def cut(self, length: int) -> None:
        """Forget every token from the position `length` on."""
        assert length <= self.length
        removed = self._context.memory_seq_rm(0, length, -1)
        assert removed, "llama.cpp cuts the caches of plain decoders anywhere"
        self.length = length
