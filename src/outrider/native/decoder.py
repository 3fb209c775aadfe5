"""The lean decoder with its whole pass in C++: one call a pass, the same results whatever shares it."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.cache.base import Cache, Page
from outrider.errors import OptionError
from outrider.models.base import NORMED, Batch, PassOutput
from outrider.models.config import DecoderConfig
from outrider.models.decoder import check_activations, check_weights
from outrider.models.names import EMBEDDING, HEAD
from outrider.models.source import TensorSource
from outrider.models.states import chosen_layers
from outrider.native import _core
from outrider.native.kv import NativeCache, cores
from outrider.native.rotation import Rotations
from outrider.native.store import matrices_of
from outrider.native.weights import FLOATS, Packer, auto_weights


def usable_processors() -> int:
    """Return how many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class NativeDecoder:
    """Implements `models.base.CapturingTarget` for the decoders that `models.decoder.Decoder` runs, on a CPU.

    A position's logits are the same, bit for bit, whether it is computed alone, in a chain, in a tree or in a
    batch, and with any number of threads. Activations are float32; weights as `weights` says: "fp32", "fp16",
    "bf16", "int8", "file" for the formats of a GGUF file, or "auto": "file" for a file of quantised blocks,
    else fp16 with those matrices in fp32 whose values don't fit. Matrices of int8 or of blocks take their
    inputs as integers, with one scale for 32 of a row: `activations` "int16" (what "auto" takes) or "int8",
    which is coarser and takes less time for many rows. OptionError where they are named and no
    matrix takes integers. `isa` names the instruction set (None: the best of this processor; ValueError where
    it has no such one). Passes of a model run one at a time; the interpreter's lock is released meanwhile.
    """

    can_branch = True
    can_capture = True
    most_threads = usable_processors()
    """More threads than this process may use processors would only wait for each other."""

    def __init__(
        self,
        config: DecoderConfig,
        source: TensorSource,
        *,
        weights: str = "auto",
        activations: str = "auto",
        isa: str | None = None,
    ) -> None:
        self.config = config
        self.vocab_size = config.vocab_size
        self.context_limit = config.context_limit
        self.layers, self.hidden_size = config.layers, config.hidden_size
        self.device = torch.device("cpu")
        check_weights(weights)
        check_activations(activations)
        chosen = auto_weights(config, source) if weights == "auto" else weights
        packer = Packer(config, source, chosen, may_widen=weights == "auto")
        self._core = _core.make_decoder(
            config.vocab_size,
            config.hidden_size,
            config.intermediate_size,
            config.heads,
            config.kv_heads,
            config.head_dim,
            config.norm_eps,
            isa,
            bytes=activations == "int8",
        )
        matrices = matrices_of(packer)
        for index in range(config.layers):
            self._core.add_layer(_layer(packer, matrices, config, index), config.window(index) or 0)
        embedding = matrices[EMBEDDING]
        head = matrices.get(HEAD, embedding)
        self.weight_bytes = sum(m.nbytes for name, m in matrices.items() if name != EMBEDDING or m is head)
        """Bytes of the matrices that every pass reads: those of the layers and the head."""
        self.layer_bytes = [
            sum(m.nbytes for name, m in matrices.items() if name.startswith(f"model.layers.{index}."))
            for index in range(config.layers)
        ]
        """Of these, the bytes of each layer."""
        norm = packer.vector("model.norm.weight")
        self._core.set_top(embedding, norm, head)
        self._norm = torch.from_numpy(norm)
        self.embedding = embedding
        """The packed matrix, which drafting heads share."""
        self.isa = self._core.isa
        self._rotations = Rotations(self._core, config.rope, config.context_limit)
        self._running = threading.Lock()
        self.notices = packer.notices
        self.parameters = packer.parameters
        kinds = sorted({matrix.format for matrix in matrices.values()})
        self.weights = f"file ({', '.join(kinds)})" if chosen == "file" else chosen
        self.kernel = f"native {chosen} {self._core.isa}"
        self.activations = _activations(activations, chosen, kinds)
        """What matrices take their inputs as; where these differ, those of int8 or of blocks."""
        if self.activations == "int8":
            self.kernel += ", int8 activations"

    def new_cache(self, pages: Sequence[Page] = ()) -> NativeCache:
        """Return a cache for one sequence, which begins with these pages; ValueError for pages of others."""
        return NativeCache(self.config.layers, self.config.kv_heads, self.config.head_dim, pages)

    def forward(self, batch: Batch, caches: Sequence[Cache]) -> Tensor:
        """Run one pass over `batch`; return float32 logits [W, V].

        ValueError for a batch that is malformed or does not fit, `Cancelled` where `cancel` stopped the pass;
        nothing is pending in the caches then. CapabilityError for a cache of another pass.
        """
        return self.run(batch, caches).logits

    def run(
        self,
        batch: Batch,
        caches: Sequence[Cache],
        *,
        layers: Sequence[int] | None = None,
        captured: Sequence[int] = (),
    ) -> PassOutput:
        """Run one pass through `layers` (in this order; None: all) and keep the states after `captured`.

        `NORMED` in `captured` is the last of them after the final norm. A layer that is left out writes no
        keys and values: the rows of such a pass must be forgotten before a pass through more layers reads the
        cache.
        """
        own = cores(caches)
        every = chosen_layers(layers, captured, self.config.layers)
        logits = np.empty((len(batch.wanted), self.vocab_size), np.float32)
        states = [index for index in captured if index != NORMED]
        if NORMED in captured and every[-1] not in states:
            states.append(every[-1])
        hidden = np.empty((len(states), len(batch), self.hidden_size), np.float32)
        with self._running:
            self._rotations.reach(max(batch.positions, default=0))
            self._core.run(
                batch.tokens,
                batch.positions,
                batch.sequences,
                batch.parents,
                batch.wanted,
                own,
                min(torch.get_num_threads(), self.most_threads),
                logits,
                every,
                states,
                hidden,
            )
        found = torch.from_numpy(hidden)
        if NORMED in captured:
            last = found[states.index(every[-1])]
            normed = F.rms_norm(last, last.shape[-1:], self._norm, self.config.norm_eps)
            found = torch.stack(
                [normed if index == NORMED else found[states.index(index)] for index in captured]
            )
        return PassOutput(torch.from_numpy(logits), found)

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """Return the embeddings of tokens, float32 [R, D]; ValueError for one that is not there."""
        rows = np.empty((len(tokens), self.hidden_size), np.float32)
        for row, token in zip(rows, tokens, strict=True):
            self.embedding.read(token, row)
        return torch.from_numpy(rows)

    def head(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [R, V] of hidden states [R, D] after the final norm.

        ValueError for states of another width.
        """
        rows = hidden.detach().to("cpu", torch.float32).contiguous().numpy()
        logits = np.empty((len(rows), self.vocab_size), np.float32)
        with self._running:
            self._core.head(rows, min(torch.get_num_threads(), self.most_threads), logits)
        return torch.from_numpy(logits)

    def cancel(self) -> None:
        """Stop the pass that is running in another thread, at its next layer; without one, do nothing."""
        self._core.cancel()


def _activations(wanted: str, weights: str, kinds: Sequence[str]) -> str:
    """Return what activations become; OptionError where they are to be integers that no matrix takes."""
    if any(kind not in FLOATS.values() for kind in kinds):
        return "int16" if wanted == "auto" else wanted
    if wanted != "auto":
        raise OptionError(
            f"activations {wanted!r} are for weights int8 or the blocks of a GGUF file (file), and these are "
            f"{weights}, which take activations as floats; leave activations to auto"
        )
    return "fp32"


def _layer(
    packer: Packer, matrices: Mapping[str, _core.Matrix], config: DecoderConfig, index: int
) -> dict[str, object]:
    """Return the parts of one layer under the core's names."""
    prefix = f"model.layers.{index}."
    linears = {
        **{part: (f"{prefix}self_attn.{part}_proj", config.qkv_bias) for part in "qkv"},
        "o": (f"{prefix}self_attn.o_proj", config.output_bias),
        **{part: (f"{prefix}mlp.{part}_proj", config.mlp_bias) for part in ("gate", "up", "down")},
    }
    parts: dict[str, object] = {
        "input_norm": packer.vector(f"{prefix}input_layernorm.weight"),
        "mlp_norm": packer.vector(f"{prefix}post_attention_layernorm.weight"),
    }
    for part, (name, bias) in linears.items():
        parts[part] = matrices[f"{name}.weight"]
        if bias:
            parts[f"{part}_bias"] = packer.vector(f"{name}.bias")
    if config.qk_norm:
        parts["q_norm"] = packer.vector(f"{prefix}self_attn.q_norm.weight")
        parts["k_norm"] = packer.vector(f"{prefix}self_attn.k_norm.weight")
    return parts
